"""The engines that run programs and raw streams, by name.

All engines take the same arguments and return the same types as the cycle model, so that outputs, cycles, counters and
traces of two engines can be compared directly.
"""

import difflib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from lathe.configs import HardwareConfig, LatheError
from lathe.configs.atomic import check_writable
from lathe.configs.errors import shown
from lathe.configs.hardware_config import check_machine
from lathe.configs.host_memory import within_memory
from lathe.configs.integers import integer
from lathe.isa import BusError, Program
from lathe.rtl_engine import prepare, replay_with, runner_named, simulate_with
from lathe.sim import InputError, ReplayResult, Result, simulate_program
from lathe.sim import replay as replay_stream


class EngineError(LatheError):
    """The name of an engine that does not exist, or a waveform that an engine does not write."""


@dataclass(frozen=True)
class Engine:
    """The functions that run a compiled program and a raw stream on an engine.

    ``waves``: suffixes of the waveforms it can write. ``prepare`` builds what it needs for a machine, and for
    waveforms of a suffix, ahead of the first run.
    """

    what: str
    simulate: Callable[..., Result]
    replay: Callable[..., ReplayResult]
    waves: tuple[str, ...] = ()
    prepare: Callable[[HardwareConfig, str | None], None] = lambda _, __: None


def _on_rtl(name: str, what: str, waves: tuple[str, ...]) -> Engine:
    """An engine that runs the RTL; Amaranth is imported on first use."""

    def simulate_rtl(*arguments: Any, **options: Any) -> Result:
        return simulate_with(runner_named(name))(*arguments, **options)

    def replay_rtl(*arguments: Any, **options: Any) -> ReplayResult:
        return replay_with(runner_named(name))(*arguments, **options)

    def prepare_rtl(config: HardwareConfig, wave: str | None) -> None:
        prepare(name, config, wave)

    return Engine(what, simulate_rtl, replay_rtl, waves, prepare_rtl)


# The engine that needs no optional dependencies, and the reference that others are compared with.
CYCLE_MODEL = "sim"

ENGINES: Mapping[str, Engine] = {
    CYCLE_MODEL: Engine("the event-driven cycle model", simulate_program, replay_stream),
    "pysim": _on_rtl("pysim", "the RTL in Python", (".vcd",)),
    "verilator": _on_rtl("verilator", "the RTL compiled with Verilator", (".fst", ".vcd")),
}


@within_memory("a program's simulation")
def simulate(
    program: Program,
    inputs: Mapping[str, ArrayLike] | None = None,
    *,
    engine: str = CYCLE_MODEL,
    timing_only: bool = False,
    trace: bool = True,
    tokens: Sequence[int] | None = None,
    wave: str | PathLike[str] | None = None,
) -> Result:
    """Run a program on `engine`: arrays in, arrays and cycles out.

    `inputs`: an array for each of the program's inputs, by name, in its logical shape and dtype. With `timing_only`
    they are not needed: no data is computed, and the result has cycles, counters and trace but no outputs. `tokens`:
    the four counts before the launch (load→compute, compute→load, compute→store, store→compute), by default the
    program's own. `wave`: a file for the waveform of the RTL: .vcd, or with "verilator" also .fst.

    Engines: "sim", the cycle model; "pysim", the RTL in Python; "verilator", the RTL as compiled C++, which requires
    the extra `rtl` and a C++ compiler and builds a machine on its first use.

    Raises :class:`EngineError` for an unknown engine or a waveform format that it does not have, FileError for a
    waveform that cannot be written, InputError for inputs that do not fit, MachineFault if the program faults, and
    RtlError for a machine that cannot be built, or cannot be built on this computer.
    """
    chosen, options = engine_named(engine), {"timing_only": timing_only, "trace": trace, "tokens": tokens}
    check_program(program, inputs)
    check_switches(timing_only=timing_only, trace=trace)
    if wave is None:
        return chosen.simulate(program, inputs, **options)
    check_wave(engine, wave)
    return chosen.simulate(program, inputs, wave=wave, **options)


def replay(
    config: HardwareConfig,
    stream: str | PathLike[str] | Mapping[str, ArrayLike],
    *,
    engine: str = CYCLE_MODEL,
    trace: bool = True,
    wave: str | PathLike[str] | None = None,
    bus_error: BusError | None = None,
    memory_end: int | None = None,
) -> ReplayResult:
    """Run a raw instruction stream on a raw memory image: an ``.npz`` file or a mapping with the same keys.

    The keys are insns (N, 16) uint8, insn_addr, page_addrs (P,), pages (P, 4096) uint8 and tokens (4,). `wave` as in
    :func:`simulate`. To test a machine's error handling, the memory answers with an error the beat or burst of
    `bus_error`, and those that begin at byte `memory_end` or above.

    Raises :class:`EngineError`, ConfigError for an invalid `config`, FileError, StreamError for an invalid stream,
    MachineFault and RtlError.
    """
    chosen = engine_named(engine)
    check_machine(config, "replay")
    check_switches(trace=trace)
    options: dict[str, Any] = {"trace": trace, "bus_error": bus_error, "memory_end": checked_end(memory_end)}
    check_bus_error(bus_error)
    if wave is None:
        return chosen.replay(config, stream, **options)
    check_wave(engine, wave)
    return chosen.replay(config, stream, wave=wave, **options)


def check_program(program: Program, inputs: Mapping[str, ArrayLike] | None) -> None:
    """Raise InputError unless `program` is a Program and `inputs` maps names to arrays."""
    if not isinstance(program, Program):
        raise InputError(f"The program to simulate must be a Program, not {shown(program)}. It is what build returns.")
    if inputs is not None and not isinstance(inputs, Mapping):
        raise InputError(f"The inputs of the program must be arrays by their names, not {shown(inputs)}.")


def check_switches(**switches: object) -> None:
    """Raise InputError unless these arguments are Booleans."""
    for name, value in switches.items():
        if not isinstance(value, bool | np.bool_):
            raise InputError(f"{name} of a launch must be True or False, not {shown(value)}.")


def check_bus_error(error: object) -> None:
    """Raise InputError unless an error to inject is a valid BusError, or None."""
    if error is None:
        return
    if not isinstance(error, BusError):
        raise InputError(f"bus_error of a launch must be a BusError or None, not {shown(error)}.")
    number = integer(error.number)
    if number is None or number < 0 or not isinstance(error.channel, str) or error.channel not in ("read", "write"):
        raise InputError(
            "bus_error of a launch must have the channel 'read' or 'write' and a number of at least 0, not "
            f"{shown(error.channel)} and {shown(error.number)}."
        )


def checked_end(memory_end: object) -> int | None:
    """``memory_end`` as an integer or None. Raises InputError for a value that is no address."""
    end = integer(memory_end)
    if memory_end is not None and (end is None or end < 0):
        raise InputError(f"memory_end of a launch must be a byte address or None, not {shown(memory_end)}.")
    return end


def check_wave(engine: str, path: str | PathLike[str]) -> None:
    """Raise :class:`EngineError` or FileError when `engine` cannot write a waveform to `path`."""
    suffixes = engine_named(engine).waves
    shown_path = repr(str(path)) if isinstance(path, str | PathLike) else shown(path)
    if not suffixes:
        able = " or ".join(repr(name) for name, each in ENGINES.items() if each.waves)
        raise EngineError(
            f"Cannot write waveform {shown_path} with engine {engine!r}: the cycle model has no signals. Choose engine "
            f"{able}, or write a trace."
        )
    if not isinstance(path, str | PathLike) or Path(path).suffix not in suffixes:
        suffix = " or ".join(suffixes)
        raise EngineError(f"The waveform of engine {engine!r} must be a {suffix} file, not {shown_path}.")
    check_writable(path)


def engine_named(name: str, others: Sequence[str] = ()) -> Engine:
    """The engine with this name. Raises :class:`EngineError`; ``others``: further names that the caller accepts."""
    if isinstance(name, str) and name in ENGINES:
        return ENGINES[name]
    known = [*ENGINES, *others]
    alike = difflib.get_close_matches(name, known, n=1) if isinstance(name, str) else []
    remedy = f"Did you mean {alike[0]!r}?" if alike else "Choose one of these."
    raise EngineError(f"The engine must be one of {', '.join(known)}, not {shown(name)}. {remedy}")
