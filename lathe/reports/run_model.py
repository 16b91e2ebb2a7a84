"""The model of a run for pages: consecutive launches on one machine, and their layers."""

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
    """The costs of a layer, in cycles unless noted; a layer on the host CPU has only ``name``, ``why`` and ``macs``.

    ``cycles`` of all layers add up to those of the launches. ``bound``: the lower bound on cycles; ``compute``: issue
    cycles of its instructions in the compute unit; ``memory``: cycles of its bytes on the bus. ``macs``: MACs of the
    algorithm, or if unknown, of the GEMM instructions including padding. ``busy``, ``waiting`` and ``reasons``: as in
    :class:`~lathe.cycle_attribution.LabelCycles`.
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
    """A launch, with the index of each instruction's layer among all layers of the run.

    ``compiled``: the compiled program with its schedule, if known.
    """

    result: Result
    layer_of: Ints
    compiled: Compiled | None = None


@dataclass(frozen=True, eq=False)
class Run:
    """A run: its name, its machine, and its launches and layers in execution order."""

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
        return Counters.total([each.result.counters for each in self.streams])

    @property
    def instructions(self) -> int:
        """How many instructions all launches have."""
        return sum(len(each.result.program.instructions) for each in self.streams)


def run_of_results(name: str, results: Sequence[Result], made: Mapping[int, Compiled] | None = None) -> Run:
    """The run of programs whose layers are their labels. ``made``: compiled programs by the ``id`` of the program.

    There must be at least one result; all must have traces, and be for the same machine.
    """
    streams: list[Stream] = []
    layers: list[Layer] = []
    for number, result in enumerate(results):
        program = result.program
        prefix = f"{number}: " if len(results) > 1 else ""
        streams.append(Stream(result, _with_offset(program.label_of, layers), (made or {}).get(id(program))))
        layers += _layers(result, program.labels, program.label_of, prefix)
    return Run(name, results[0].program.config, tuple(streams), tuple(layers))


def run_of_network(
    name: str, program: NetworkProgram, streams_ran: Sequence[Result], made: Mapping[int, Compiled] | None = None
) -> Run:
    """The run of a network from the results of its streams, with all NPU and host layers in order."""
    streams: list[Stream] = []
    layers: list[Layer] = []
    results = iter(streams_ran)
    for step in program.steps:
        if isinstance(step, HostStep):
            layers += [Layer(each.name, "host", each.why, macs=each.macs) for each in step.nodes]
            continue
        assert isinstance(step, NpuStep)
        own = next(results)
        streams.append(Stream(own, _with_offset(step.layer_of, layers), (made or {}).get(id(step.program))))
        names = [layer.name for layer in step.layers]
        known = [(layer.macs, layer.bound) for layer in step.layers]
        layers += _layers(own, names, step.layer_of, "", known)
    return Run(name, program.config, tuple(streams), tuple(layers))


def _with_offset(layer_of: NDArray[np.int32], layers: Sequence[Layer]) -> Ints:
    """The indices of a launch's layers, offset by the number of preceding layers."""
    return layer_of.astype(np.int64) + len(layers)


def _layers(
    result: Result,
    names: Sequence[str],
    layer_of: NDArray[np.int32],
    prefix: str,
    known: Sequence[tuple[int, int]] | None = None,
) -> list[Layer]:
    """The layers of a launch; ``known``: their MACs and lower bounds, if known."""
    config, columns = result.program.config, result.program.columns
    costs = cycles_by_group(result, names, layer_of)
    cycles = divided_cycles(result, layer_of, len(names)).tolist()
    moved = np.bincount(layer_of, dram_bytes(result), len(names)).astype(np.int64).tolist()
    macs_per_micro_op = config.batch * config.block_in * config.block_out
    gemm = np.where(columns.opcode == Opcode.GEMM, micro_ops(columns), 0) * (columns["reset"] == 0)
    macs = (np.bincount(layer_of, gemm, len(names)).astype(np.int64) * macs_per_micro_op).tolist()
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
    """The peak bandwidth of the bus in one direction."""
    return config.memory.bus_bits / 8 / config.memory.cycles_per_beat


def dram_bytes(result: Result) -> Ints:
    """The bytes of DRAM that each instruction transfers, (N,), without its own encoding."""
    columns = result.program.columns
    vector_bytes = element_bytes(result.program.config)[columns["memory_type"]]
    vector_bytes = np.where(columns.stores, result.program.config.out_element_bytes, vector_bytes)
    moved: Ints = np.where(columns.kind == Kind.TRANSFER, elements(columns) * vector_bytes, 0)
    return moved
