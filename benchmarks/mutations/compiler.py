"""Faults of the compiler: programs are built with them, and all that ``build(..., check=True)`` asks is asked."""

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
"""Programs that are looked at from the first on which validation or the verifier has caught a fault."""


def verdicts() -> dict[str, str]:
    """Build the programs, and see who catches what."""
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
    """The nets that catch the compiler on a program, each with what it says."""
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
    if not out_of_range:  # nothing can be followed beyond the ends of memories
        found |= caught("validation", lambda: validate_stream(compiled))
        found |= caught("values", lambda: validate_runs(compiled.program, outputs, compiled.constants))
    return found


def caught(net: str, ask: Callable[[], None]) -> dict[str, str]:
    """The net, if it catches something."""
    try:
        ask()
    except ValidationError as error:
        return {net: first_words(error)}
    return {}


def first_words(error: Exception) -> str:
    """The beginning of a message."""
    return " ".join(str(error).split()[:6])


FAULTS = (*compiler_order.FAULTS, *compiler_instructions.FAULTS)
COMPILER = Kind("compiler", FAULTS, NETS, verdicts)
