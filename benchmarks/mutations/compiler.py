"""Faults of the compiler: programs are built with them, and checked like by ``build(..., check=True)``."""

from collections.abc import Callable, Mapping

from lathe.configs import LatheError
from lathe.isa import verify
from lathe.scheduler import ValidationError
from lathe.validation.end_to_end import validate_runs
from lathe.validation.stream_validator import validate_stream
from mutations import compiler_instructions, compiler_order
from mutations.compiled_programs import MORE_RECIPES
from mutations.fault import Kind
from mutations.programs import RECIPES, Recipe

NETS = ("legality", "refused", "verifier", "validation", "values")

ENOUGH = 4
"""Programs that are built from the first on which validation or the verifier has caught a fault."""


def verdicts() -> dict[str, str]:
    """Build the programs: the nets that catch the fault, each with the first program and the message."""
    found: dict[str, str] = {}
    left = ENOUGH
    for recipe in (*RECIPES, *MORE_RECIPES):
        for net, said in look(recipe).items():
            found.setdefault(net, f"{recipe.name}: {said}")
        left -= "validation" in found or "verifier" in found
        if not left:
            break
    return found


def look(recipe: Recipe) -> Mapping[str, str]:
    """The nets that catch the fault on a program, each with its message."""
    try:
        compiled, outputs = recipe.compile()
    except AssertionError as error:
        return {"legality" if "completing" in str(error) else "refused": first_words(error)}
    except (LatheError, KeyError, IndexError, ValueError) as error:
        return {"refused": first_words(error)}
    found: dict[str, str] = {}
    findings = verify(compiled.program)
    if findings:
        found["verifier"] = str(findings[0].kind)
    out_of_range = any("range" in str(finding.kind) or "field" in str(finding.kind) for finding in findings)
    if not out_of_range:  # validation cannot follow accesses out of range
        found |= caught("validation", lambda: validate_stream(compiled))
        found |= caught("values", lambda: validate_runs(compiled.program, outputs, compiled.constants))
    return found


def caught(net: str, ask: Callable[[], None]) -> dict[str, str]:
    """The net with its message, if ``ask`` raises a ValidationError."""
    try:
        ask()
    except ValidationError as error:
        return {net: first_words(error)}
    return {}


def first_words(error: Exception) -> str:
    """The first words of a message."""
    return " ".join(str(error).split()[:6])


FAULTS = (*compiler_order.FAULTS, *compiler_instructions.FAULTS)
COMPILER = Kind("compiler", FAULTS, NETS, verdicts)
