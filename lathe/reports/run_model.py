"""What a page of a run shows: launches one after the other on one machine, and the layers that they are for."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from lathe.configs import HardwareConfig
from lathe.cycle_attribution import cycles_by_group, divided_cycles
from lathe.isa.table import Kind, Opcode
from lathe.networks.program import NetworkProgram
from lathe.networks.program_steps import HostStep, NpuStep
from lathe.scheduler.codegen.compiled_program import Compiled
from lathe.sim import Counters, Result
from lathe.sim.timing_ops import element_bytes, elements, micro_ops

Ints = NDArray[np.int64]


@dataclass(frozen=True)
class Layer:
    """A layer and what it cost, in cycles unless said otherwise; of one of the host the name, why, and ``macs``.

    ``cycles`` of all layers add up to those of the launches. ``bound``: what it takes at least; ``compute`` and
    ``memory``: the cycles of the steps of its instructions in the compute unit, and of its bytes on the bus. ``macs``:
    multiply-accumulates of the algorithm, or where nobody has counted them, those that the matrix core made room for.
    ``busy``, ``waiting`` and ``reasons`` as :class:`~lathe.cycle_attribution.LabelCycles` has them.
    """

    name: str
    where: str
    why: str = ""
    instructions: int = 0
    cycles: int = 0
    bound: int = 0
    compute: int = 0
    memory: int = 0
    macs: int = 0
    bytes: int = 0
    busy: Mapping[str, int] | None = None
    waiting: Mapping[str, int] | None = None
    reasons: Mapping[str, Mapping[str, int]] | None = None


@dataclass(frozen=True, eq=False)
class Stream:
    """A launch, and for each of its instructions the number of its layer among all layers of the run.

    ``compiled`` is how the program was made, where that is known.
    """

    result: Result
    layer_of: Ints
    compiled: Compiled | None = None


@dataclass(frozen=True, eq=False)
class Run:
    """A name, the machine, launches in their order, and layers in the order in which they run."""

    name: str
    config: HardwareConfig
    streams: tuple[Stream, ...]
    layers: tuple[Layer, ...]

    @property
    def cycles(self) -> int:
        """The cycles of all launches."""
        return sum(each.result.cycles for each in self.streams)

    @property
    def counters(self) -> Counters:
        """The counts of all launches."""
        return Counters.of_several([each.result.counters for each in self.streams])

    @property
    def instructions(self) -> int:
        """How many instructions all launches have."""
        return sum(len(each.result.program.instructions) for each in self.streams)


def run_of_results(name: str, results: Sequence[Result], made: Mapping[int, Compiled] | None = None) -> Run:
    """The run of programs whose layers are their labels. ``made``: how they were made, by the ``id`` of a program.

    There is at least one result, all have traces, and are for one machine.
    """
    streams: list[Stream] = []
    layers: list[Layer] = []
    for number, result in enumerate(results):
        program = result.program
        prefix = f"{number}: " if len(results) > 1 else ""
        streams.append(Stream(result, _behind(program.label_of, layers), (made or {}).get(id(program))))
        layers += _layers(result, program.labels, program.label_of, prefix)
    return Run(name, results[0].program.config, tuple(streams), tuple(layers))


def run_of_network(
    name: str, program: NetworkProgram, streams_ran: Sequence[Result], made: Mapping[int, Compiled] | None = None
) -> Run:
    """The run of a network by the results of its streams, with its own layers, those of the host between them."""
    streams: list[Stream] = []
    layers: list[Layer] = []
    results = iter(streams_ran)
    for step in program.steps:
        if isinstance(step, HostStep):
            layers += [Layer(each.name, "host", each.why, macs=each.macs) for each in step.nodes]
            continue
        assert isinstance(step, NpuStep)
        own = next(results)
        streams.append(Stream(own, _behind(step.layer_of, layers), (made or {}).get(id(step.program))))
        names = [layer.name for layer in step.layers]
        known = [(layer.macs, layer.bound) for layer in step.layers]
        layers += _layers(own, names, step.layer_of, "", known)
    return Run(name, program.config, tuple(streams), tuple(layers))


def _behind(layer_of: NDArray[np.int32], layers: Sequence[Layer]) -> Ints:
    """The places of a launch's layers behind those that are there already."""
    return layer_of.astype(np.int64) + len(layers)


def _layers(
    result: Result,
    names: Sequence[str],
    layer_of: NDArray[np.int32],
    prefix: str,
    known: Sequence[tuple[int, int]] | None = None,
) -> list[Layer]:
    """The layers of a launch; ``known`` are their multiply-accumulates and bounds, where somebody knows them."""
    config, columns = result.program.config, result.program.columns
    costs = cycles_by_group(result, names, layer_of)
    cycles = divided_cycles(result, layer_of, len(names)).tolist()
    moved = np.bincount(layer_of, dram_bytes(result), len(names)).astype(np.int64).tolist()
    room = config.batch * config.block_in * config.block_out
    gemm = np.where(columns.opcode == Opcode.GEMM, micro_ops(columns), 0) * (columns["reset"] == 0)
    macs = (np.bincount(layer_of, gemm, len(names)).astype(np.int64) * room).tolist()
    found = []
    for number, cost in enumerate(costs):
        compute = cost.busy["gemm"] + cost.busy["alu"]
        memory = round(moved[number] / bytes_per_cycle(config))
        own_macs, bound = known[number] if known is not None else (macs[number], max(compute, memory))
        found.append(
            Layer(
                prefix + cost.label, "npu", "", cost.instructions, cycles[number], bound, compute, memory, own_macs,
                moved[number], cost.busy, cost.waiting, cost.reasons,
            )
        )  # fmt: skip
    return found


def bytes_per_cycle(config: HardwareConfig) -> float:
    """What the bus carries in a cycle at most, in one direction."""
    return config.memory.bus_bits / 8 / config.memory.cycles_per_beat


def dram_bytes(result: Result) -> Ints:
    """The bytes of DRAM that each instruction moves, (N,), without those of the instruction itself."""
    columns = result.program.columns
    of_element = element_bytes(result.program.config)[columns["memory_type"]]
    of_element = np.where(columns.stores, result.program.config.out_element_bytes, of_element)
    moved: Ints = np.where(columns.kind == Kind.TRANSFER, elements(columns) * of_element, 0)
    return moved
