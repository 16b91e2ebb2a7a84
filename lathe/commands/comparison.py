"""Output of commands that compare several engines on the same launch."""

import sys
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import click

from lathe.commands.terminal import grouped, notes
from lathe.configs import HardwareConfig
from lathe.cosimulation import COSIMULATED, Cosimulation
from lathe.engines import EngineError, check_wave, engine_named

ALL = "all"
DIFFERENT = 1


def engines_of(names: str) -> tuple[str, ...]:
    """The engines that `--engine` names: one, a comma-separated list, or "all". Raises EngineError."""
    named = [name.strip() for name in names.split(",")]
    for name in named:
        if name != ALL:
            engine_named(name, [ALL])
    engines = tuple(each for name in named for each in (COSIMULATED if name == ALL else (name,)))
    if len(set(engines)) < len(engines):
        raise EngineError(
            f"The engines of --engine must be distinct, because they are compared, not {', '.join(engines)}. "
            "Name each once."
        )
    return engines


def prepare(names: tuple[str, ...], machine: HardwareConfig, wave: Path | None) -> None:
    """Build the engines for a machine, the last one with the waveform writer if ``wave`` is given.

    Shows a status on a terminal, because a new machine takes a minute. Raises RtlError, and EngineError for a waveform
    format that the engine does not write.
    """
    if wave is not None:
        check_wave(names[-1], wave)
    waiting = notes().status(f"building machine {machine.name}") if sys.stderr.isatty() else nullcontext()
    with waiting:
        for name in names:
            engine_named(name).prepare(machine, wave.suffix if wave is not None and name == names[-1] else None)


def agreement_dict(ran: Cosimulation[Any]) -> dict[str, Any]:
    """The comparison as plain values."""
    return {
        "engines": {name: {"cycles": result.cycles} for name, result in ran.results.items()},
        "agree": ran.agree,
        "differences": list(ran.differences),
    }


def print_agreement(ran: Cosimulation[Any]) -> None:
    """Print one line if the engines agree, and otherwise one for each difference."""
    if ran.agree:
        *others, last = ran.results
        trace = ran.first.trace
        events = "" if trace is None else f" start and end of {grouped(len(trace))} events,"
        click.echo(
            f"{', '.join(others)} and {last} agree:{events} {grouped(ran.cycles)} cycles, memory, tokens and counters."
        )
        return
    click.echo("The engines DIFFER.")
    for difference in ran.differences:
        click.echo(difference)
