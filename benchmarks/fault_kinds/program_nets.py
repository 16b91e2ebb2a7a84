"""The nets between a program and what it should compute, for faults of the compiler."""

from collections.abc import Mapping
from dataclasses import replace

import lathe as lt
from fault_kinds.programs import RECIPES, Built, Recipe, outputs_equal, programs
from lathe.isa import MachineFault
from lathe.scheduler.errors import ScheduleError, ValidationError
from lathe.validation.stream import validate_stream

# Legality: commands and builds that refuse; crash: any other exception of the compiler, its own assertions among them.
NETS = ("legality", "validation", "verifier", "values", "crash")


def verdicts() -> dict[str, str]:
    """Compile every program anew, and see who catches it on what."""
    found: dict[str, str] = {}
    for recipe, right in zip(RECIPES, programs(), strict=True):
        for net, said in look(recipe, right).items():
            found.setdefault(net, said)
    return found


def look(recipe: Recipe, right: Built) -> Mapping[str, str]:
    """The nets that catch the compiler on a program, each with what it says; `right` was made without a fault."""
    try:
        compiled, _ = recipe.compile()
    except ScheduleError as error:
        return {"legality": f"{recipe.name}: {error}"}
    except NameError:  # that would be a mistake in the fault
        raise
    except Exception as error:  # whatever else breaks is caught
        return {"crash": f"{recipe.name}: {error!r}"}
    return caught_in(replace(right, compiled=compiled))


def caught_in(built: Built) -> dict[str, str]:
    """The nets that catch a compiled program."""
    found = {}
    findings = lt.verify(built.program)
    if findings:
        found["verifier"] = f"{built.name}: {findings[0]}"
    try:
        validate_stream(built.compiled)
    except ValidationError as error:
        found["validation"] = f"{built.name}: {error}"
    except Exception as error:  # the validator meets what no compiler should make
        found["crash"] = f"{built.name}: {error!r}"
    try:
        if not outputs_equal(built, lt.simulate(built.program, built.inputs, trace=False).outputs):
            found["values"] = built.name
    except MachineFault as fault:
        found["values"] = f"{built.name}: {fault}"
    return found
