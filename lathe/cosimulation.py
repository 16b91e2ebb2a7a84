"""Cosimulation: runs one program on several engines, and compares every bit and every cycle.

This checks the simulator's prediction against the RTL, instruction by instruction. Comparing traces of both sides entry
by entry follows the cosimulation of OpenTitan's OTBN.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from os import PathLike
from typing import Any, Generic, TypeVar

import numpy as np
from numpy.typing import ArrayLike, NDArray

from lathe.configs import HardwareConfig, LatheError
from lathe.configs.errors import shown
from lathe.configs.html_repr import repr_html
from lathe.configs.memory import PAGE_BYTES
from lathe.engines import check_program, check_wave, engine_named, replay
from lathe.isa import BusError, MachineFault, Program
from lathe.result_diff import fault_differences, memory_differences, output_differences, time_differences
from lathe.sim import ReplayResult, Result
from lathe.sim.dram import FlatMemory
from lathe.sim.simulate import memory_end, memory_of, token_counts, unpacked

COSIMULATED = ("sim", "verilator")

Ran = TypeVar("Ran", Result, ReplayResult)


class CosimulationError(LatheError):
    """Engines differ (the message gives each engine's first differing value), or fewer than two engines are named."""


@dataclass(frozen=True, eq=False, repr=False)
class Cosimulation(Generic[Ran]):
    """The results of one launch on several engines, by engine name, without those that stopped with a fault.

    ``differences`` are sentences, empty if the engines agree: the first trace event that differs comes before totals.
    """

    results: Mapping[str, Ran]
    differences: tuple[str, ...]

    _repr_html_ = repr_html

    def __repr__(self) -> str:
        if self.differences:
            return f"Cosimulation({', '.join(self.results)}: {len(self.differences)} differences)"
        return f"Cosimulation({', '.join(self.results)}: all equal, {self.cycles} cycles)"

    @property
    def first(self) -> Ran:
        """The result of the first engine."""
        return next(iter(self.results.values()))

    @property
    def cycles(self) -> int:
        """Cycles of the launch."""
        return self.first.cycles

    @property
    def outputs(self) -> Mapping[str, NDArray[Any]]:
        """The program's outputs by name; a raw stream has none."""
        return self.first.outputs if isinstance(self.first, Result) else {}

    @property
    def agree(self) -> bool:
        """Whether the results are equal in everything compared."""
        return not self.differences

    def check(self) -> "Cosimulation[Ran]":
        """This object, if there is no difference. Raises :class:`CosimulationError` that lists all differences."""
        if self.differences:
            raise CosimulationError("The engines differ. " + " ".join(self.differences))
        return self


def cosimulate(
    program: Program,
    inputs: Mapping[str, ArrayLike] | None = None,
    *,
    engines: Sequence[str] = COSIMULATED,
    tokens: Sequence[int] | None = None,
    wave: str | PathLike[str] | None = None,
    bus_error: BusError | None = None,
) -> Cosimulation[Result]:
    """Run a program on several engines, and compare outputs, memory, tokens, counters, and the trace of every unit.

    `engines`: two or more of "sim", "pysim" and "verilator"; each is compared with the first. `wave`: a file for the
    last one's waveform. `bus_error`: the beat or burst that the memory answers with an error. The other arguments are
    those of ``simulate``. A fault in some engines only is a difference.

    Raises :class:`CosimulationError` for fewer than two engines, and if all engines stop with faults that differ in
    code, cycle or instruction; EngineError for an unknown engine, InputError for inputs that do not fit, MachineFault
    if all engines stop with the same fault, RtlError for a machine that cannot be built.
    """
    check_program(program, inputs)
    before = memory_of(program, {} if inputs is None else inputs)
    count = -(-len(before.content) // PAGE_BYTES)
    pages = np.zeros((count, PAGE_BYTES), np.uint8)
    pages.reshape(-1)[: len(before.content)] = before.content
    stream: dict[str, ArrayLike] = {
        "insns": program.encoded,
        "insn_addr": program.insn_addr,
        "page_addrs": np.arange(count, dtype=np.uint64) * PAGE_BYTES,
        "pages": pages,
        "tokens": np.array(token_counts(program.tokens_in if tokens is None else tokens), np.int64),
    }
    ran, differences = _run(program.config, stream, engines, wave, bus_error, memory_end(program))
    results = {name: _of_program(program, result) for name, result in ran.items()}
    left, *others = results
    for right in others:
        first, other = results[left], results[right]
        in_data = output_differences(left, first.outputs, right, other.outputs)
        in_data += memory_differences(left, ran[left], right, ran[right])
        differences += time_differences(left, first, right, other) + in_data
    return Cosimulation(results, tuple(differences))


def cosimulate_stream(
    config: HardwareConfig,
    stream: str | PathLike[str] | Mapping[str, ArrayLike],
    *,
    engines: Sequence[str] = COSIMULATED,
    wave: str | PathLike[str] | None = None,
    bus_error: BusError | None = None,
    memory_end: int | None = None,
) -> Cosimulation[ReplayResult]:
    """Run a raw stream, in the form of ``replay``, on several engines, and compare as :func:`cosimulate` does.

    Raises what ``replay`` raises, and :class:`CosimulationError` as :func:`cosimulate` does.
    """
    ran, differences = _run(config, stream, engines, wave, bus_error, memory_end)
    left, *others = ran
    for right in others:
        differences += time_differences(left, ran[left], right, ran[right])
        differences += memory_differences(left, ran[left], right, ran[right])
    return Cosimulation(ran, tuple(differences))


def _run(
    config: HardwareConfig,
    stream: str | PathLike[str] | Mapping[str, ArrayLike],
    engines: Sequence[str],
    wave: str | PathLike[str] | None,
    bus_error: BusError | None,
    memory_end: int | None,
) -> tuple[dict[str, ReplayResult], list[str]]:
    """Results by engine, and a sentence for each engine that faults. Raises MachineFault if all fault alike."""
    if isinstance(engines, str) or not isinstance(engines, Sequence):
        raise CosimulationError(
            f"The engines of a cosimulation must be a list of their names, not {shown(engines)}. Leave them out for "
            f"{' and '.join(COSIMULATED)}."
        )
    for name in engines:
        engine_named(name)
    if len(set(engines)) < max(2, len(engines)):
        raise CosimulationError(
            f"The engines of a cosimulation must be two or more different ones, not {', '.join(engines) or 'none'}. "
            "Use simulate for one engine."
        )
    if wave is not None:
        check_wave(engines[-1], wave)
    ran: dict[str, ReplayResult] = {}
    faults: dict[str, MachineFault] = {}
    for name in engines:
        try:
            own_wave = wave if name == engines[-1] else None
            ran[name] = replay(config, stream, engine=name, wave=own_wave, bus_error=bus_error, memory_end=memory_end)
        except MachineFault as fault:
            faults[name] = fault
    if not ran:
        first, *others = faults.items()
        differing = [sentence for other in others for sentence in fault_differences(*first, *other)]
        if differing:
            raise CosimulationError("The engines differ. " + " ".join(differing))
        raise first[1]
    fine = " and ".join(f"in {name} after {result.cycles} cycles" for name, result in ran.items())
    return ran, [f"The launch ends {fine}, but faults in {name}: {fault}" for name, fault in faults.items()]


def _of_program(program: Program, result: ReplayResult) -> Result:
    """The Result of a program from the ReplayResult of its stream."""
    memory = FlatMemory(program.memory_end)
    for address, page in zip(result.page_addrs.tolist(), result.pages, strict=True):
        if address < len(memory.content):
            end = min(address + PAGE_BYTES, len(memory.content))
            memory.content[address:end] = page[: end - address]
    return Result(
        program=program,
        outputs={each.name: unpacked(memory, each) for each in program.outputs},
        cycles=result.cycles,
        tokens=result.tokens,
        counters=result.counters,
        trace=result.trace,
    )
