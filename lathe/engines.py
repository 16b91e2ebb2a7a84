"""What runs programs and raw streams: the engines by name.

Every engine takes the arguments of the cycle model and gives results of the same types, so that outputs, cycles,
counters and traces of two engines can be compared as they are.
"""

import difflib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from typing import Any

from numpy.typing import ArrayLike

from lathe.configs import HardwareConfig, LatheError
from lathe.isa import Program
from lathe.sim import ReplayResult, Result, simulate_program
from lathe.sim import replay as replay_stream


class EngineError(LatheError):
    """The name of an engine that does not exist."""


@dataclass(frozen=True)
class Engine:
    """How an engine runs a compiled program, and how it runs a raw stream."""

    what: str
    simulate: Callable[..., Result]
    replay: Callable[..., ReplayResult]


def _on_rtl(name: str) -> Engine:
    """An engine that runs the RTL; Amaranth is imported when it is first used."""

    def simulate_rtl(*arguments: Any, **options: Any) -> Result:
        from lathe.hardware_engines import runner_named, simulate_with

        return simulate_with(runner_named(name))(*arguments, **options)

    def replay_rtl(*arguments: Any, **options: Any) -> ReplayResult:
        from lathe.hardware_engines import replay_with, runner_named

        return replay_with(runner_named(name))(*arguments, **options)

    return Engine(_RTL[name], simulate_rtl, replay_rtl)


_RTL = {
    "pysim": "the RTL in Amaranth's own simulator",
    "verilator": "the RTL compiled with Verilator",
}

ENGINES: Mapping[str, Engine] = {
    "sim": Engine("the event-driven cycle model", simulate_program, replay_stream),
    **{name: _on_rtl(name) for name in _RTL},
}


def simulate(
    program: Program,
    inputs: Mapping[str, ArrayLike] | None = None,
    *,
    engine: str = "sim",
    timing_only: bool = False,
    trace: bool = True,
    tokens: Sequence[int] | None = None,
) -> Result:
    """Run a program on `engine`: arrays in, arrays and cycles out.

    `inputs` holds an array for each of the program's inputs, by name, in its logical shape and dtype. With
    `timing_only` they are not needed, nothing is computed, and the result has cycles, counters and trace but no
    outputs. `tokens` are the four counts before the launch (load→compute, compute→load, compute→store,
    store→compute), the program's own unless given.

    Raises :class:`EngineError` for an unknown engine, InputError for inputs that do not fit, and MachineFault for a
    program that the machine does not carry out.
    """
    run = engine_named(engine).simulate
    return run(program, inputs, timing_only=timing_only, trace=trace, tokens=tokens)


def replay(
    config: HardwareConfig,
    stream: str | PathLike[str] | Mapping[str, ArrayLike],
    *,
    engine: str = "sim",
    trace: bool = True,
) -> ReplayResult:
    """Run a raw instruction stream on a raw memory image: an ``.npz`` file or a mapping with the same keys.

    The keys are insns (N, 16) uint8, insn_addr, page_addrs (P,), pages (P, 4096) uint8 and tokens (4,). Raises
    :class:`EngineError`, StreamError for a stream of another form, and MachineFault.
    """
    return engine_named(engine).replay(config, stream, trace=trace)


def engine_named(name: str) -> Engine:
    """The engine of a name. Raises :class:`EngineError`."""
    if name in ENGINES:
        return ENGINES[name]
    known = ", ".join(ENGINES)
    alike = difflib.get_close_matches(name, ENGINES, n=1)
    remedy = f"Did you mean {alike[0]!r}?" if alike else "Choose one of these."
    raise EngineError(f"The engine must be one of {known}, not {name!r}. {remedy}")
