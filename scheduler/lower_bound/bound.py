"""Lower bound on the cycles of a program on a machine, which no schedule can beat, and its breakdown.

Compute: the issue cycles of all stages, in whole vectors. Memory: the bus beats that load all inputs once and store all
outputs once, in whole vectors. The lower bound is the greater of the two (roofline); docs/lower-bound.md derives it.
"""

from collections.abc import Iterator, Mapping
from dataclasses import asdict, dataclass, replace
from typing import Any, Literal

import numpy as np

from lathe.configs import HardwareConfig
from lathe.configs.html_repr import repr_html
from lathe.frontend import Computation, Tensor
from lathe.frontend.expr.nodes import Axis, ReadAccess
from lathe.scheduler.layout.rescaling import own_operands
from lathe.scheduler.layout.vector_type import loaded_bytes
from lathe.scheduler.lower_bound.capacity import GemmTraffic
from lathe.scheduler.lower_bound.domain_points import Bits, CountedPoints, Masks, united
from lathe.scheduler.lower_bound.implementations import Implementation, StageImplementations
from lathe.scheduler.lower_bound.mac_counts import Source
from lathe.scheduler.lower_bound.shared_layouts import SharedLayouts
from lathe.scheduler.lower_bound.transfer_bytes import any_lanes, beats, bytes_loaded, bytes_stored, loaded_anywhere
from lathe.scheduler.passes.pipeline import run_until
from lathe.scheduler.rewriting.matchers import is_elementwise
from lathe.scheduler.schedule_ir.memories import ACC, INP, PARAMETERS, TABLES, WGT
from lathe.scheduler.schedule_ir.schedule_state import ScheduleView, StageView
from lathe.scheduler.target.required_extensions import check_extensions

LAST_PASS = "delinearize-axes"
"""The bound is that of the program after this pass: constants and reshapes are folded, and nothing is scheduled yet."""
KINDS = {WGT: "weights", PARAMETERS: "parameters", TABLES: "parameters"}


@dataclass(frozen=True)
class StageBound:
    """Issue cycles of the compute unit for one stage: GEMM micro-ops, resets, ALU and RESCALE.

    ``unit``, what computes it: "products" (GEMM), "diagonal products" (GEMM with diagonal weights), "sums by products"
    (GEMM with ones), "alu", "rescale" or "copy" (no cycles). ``products``: its MACs, without those with padding.
    """

    name: str
    unit: str
    gemm: int
    reset: int
    alu: int
    rescale: int
    products: int

    @property
    def steps(self) -> int:
        """All issue cycles."""
        return self.gemm + self.reset + self.alu + self.rescale


@dataclass(frozen=True)
class Bound:
    """The result of ``lathe.bound``. ``stages`` in program order; bytes moved, by tensor.

    ``inputs``, ``weights`` and ``parameters`` are loaded, ``outputs`` stored; ``beats``: those of the bus for all.
    ``compute`` and ``memory`` are cycles; ``cycles``, the lower bound, is the greater, and ``limit`` says which it is.
    ``sized`` is no bound on all schedules, but on those that compute layer by layer with the machine's scratchpads:
    cycles, with ``between``, the bytes stored and loaded between layers, and ``again``, those reloaded since operands
    do not fit (``capacity.py``).
    """

    machine: str
    stages: tuple[StageBound, ...]
    inputs: Mapping[str, int]
    weights: Mapping[str, int]
    parameters: Mapping[str, int]
    outputs: Mapping[str, int]
    beats: int
    compute: int
    memory: int
    sized: int
    between: int
    again: int

    _repr_html_ = repr_html

    @property
    def cycles(self) -> int:
        """The lower bound on cycles."""
        return max(self.compute, self.memory)

    @property
    def limit(self) -> Literal["compute", "memory"]:
        """Whether the program is compute-bound or memory-bound; "compute" if both are equal."""
        return "compute" if self.compute >= self.memory else "memory"

    @property
    def gemm(self) -> int:
        """Issue cycles of GEMM without resets."""
        return sum(each.gemm for each in self.stages)

    @property
    def reset(self) -> int:
        """Issue cycles that initialise accumulators of reductions."""
        return sum(each.reset for each in self.stages)

    @property
    def alu(self) -> int:
        """Issue cycles of ALU instructions."""
        return sum(each.alu for each in self.stages)

    @property
    def rescale(self) -> int:
        """Issue cycles of RESCALE instructions."""
        return sum(each.rescale for each in self.stages)

    @property
    def products(self) -> int:
        """Multiply-accumulates of the algorithm, without those with padding."""
        return sum(each.products for each in self.stages)

    @property
    def bytes(self) -> int:
        """All bytes that are loaded or stored, each once."""
        return sum(sum(each.values()) for each in (self.inputs, self.weights, self.parameters, self.outputs))

    def to_dict(self) -> dict[str, Any]:
        """Plain values, for JSON."""
        totals = {name: getattr(self, name) for name in ("gemm", "reset", "alu", "rescale", "products", "bytes")}
        return {"cycles": self.cycles, "limit": self.limit, **asdict(self), **totals}

    def __str__(self) -> str:
        return "\n".join(_lines(self))


def _lines(bound: Bound) -> Iterator[str]:
    yield f"on {bound.machine}: at least {bound.cycles:,} cycles, bound by {bound.limit}"
    yield f"compute {bound.compute:,} cycles"
    for each in bound.stages:
        steps = {"GEMM": each.gemm, "reset": each.reset, "ALU": each.alu, "RESCALE": each.rescale}
        text = ", ".join(f"{name} {count:,}" for name, count in steps.items() if count)
        yield f"  {each.name}, {each.unit}: {text}" if text else f"  {each.name}, {each.unit}"
    yield f"memory {bound.memory:,} cycles, {bound.bytes:,} bytes in {bound.beats:,} beats"
    for kind in ("inputs", "weights", "parameters", "outputs"):
        moved: Mapping[str, int] = getattr(bound, kind)
        if moved:
            yield f"  {kind}: " + ", ".join(f"{name} {size:,}" for name, size in moved.items())
    yield (
        f"layer by layer, with scratchpads of this size: {bound.sized:,} cycles, {bound.between:,} bytes between "
        f"layers, {bound.again:,} reloaded"
    )


def bound_of(schedule: ScheduleView, config: HardwareConfig) -> Bound:
    """The lower bound of an unscheduled program. Raises BuildError if it needs an extension that the machine lacks."""
    check_extensions(schedule, config)
    lowered = run_until(schedule, config, LAST_PASS)
    merged = _Program(lowered, config).bound()
    if not any(layout.host_steps for layout in lowered.layouts.values()):
        return merged
    unmerged = _Program(run_until(schedule, config, LAST_PASS, without="merge-conv-groups"), config).bound()
    if unmerged.cycles <= merged.cycles:
        return unmerged
    products = {each.name: each.products for each in unmerged.stages}  # without MACs with the zeros of merged groups
    return replace(merged, stages=tuple(replace(each, products=products[each.name]) for each in merged.stages))


class _Program:
    """An unscheduled program: the live elements of each tensor, and the least cost of computing them."""

    def __init__(self, schedule: ScheduleView, config: HardwareConfig) -> None:
        self.schedule, self.config = schedule, config
        self.needed: dict[Tensor, list[Masks]] = {tensor: [_whole(tensor)] for tensor in schedule.outputs}
        self.loads: dict[Tensor, tuple[int, str]] = {}
        self.layers: list[GemmTraffic] = []
        self.between: dict[Tensor, int] = {}

    def bound(self) -> Bound:
        """The lower bound of the program."""
        self._find_live_elements()
        outputs = {
            tensor.name: bytes_stored(tensor, self._domain_of(tensor), self.config) for tensor in self.schedule.outputs
        }
        stages = self._stages(sum(beats(size, self.config) for size in outputs.values()))
        loads: dict[str, dict[str, int]] = {kind: {} for kind in ("inputs", "weights", "parameters")}
        for tensor, (size, scope) in self.loads.items():
            loads[KINDS.get(scope, "inputs")][tensor.name] = size
        reads = sum(beats(size, self.config) for sizes in loads.values() for size in sizes.values())
        writes = sum(beats(size, self.config) for size in outputs.values())
        memory = self.config.memory
        busy = reads + writes if memory.shared_bandwidth else max(reads, writes)
        compute = sum(each.steps for each in stages)
        between, again = sum(self.between.values()), sum(each.reloaded(self.config) for each in self.layers)
        layered = beats(between + again, self.config)
        busy_in_layers = reads + writes + layered if memory.shared_bandwidth else max(reads + layered, writes)
        return Bound(
            self.config.name,
            stages,
            **loads,
            outputs=outputs,
            beats=reads + writes,
            compute=compute,
            memory=busy * memory.cycles_per_beat,
            sized=max(compute, busy_in_layers * memory.cycles_per_beat),
            between=between,
            again=again,
        )

    def _find_live_elements(self) -> None:
        """Compute the live elements of each tensor, backwards from the outputs; all if stages form a recurrence."""
        seen: set[Tensor] = set()
        stages = self.schedule.stages
        recurrent = False
        for stage in stages:
            recurrent = recurrent or any(
                self.schedule.producer(read.tensor) is not None and read.tensor not in seen
                for read in stage.state.computation.reads
            )
            seen.update(stage.state.tensors)
        if recurrent:
            self.needed = {tensor: [_whole(tensor)] for stage in stages for tensor in stage.state.tensors}
            return
        for stage in reversed(stages):
            axes = self._axes(stage)
            for read in stage.state.computation.reads:
                if self.schedule.producer(read.tensor) is not None:
                    self.needed.setdefault(read.tensor, []).append(_read(stage, axes, read))

    def _axes(self, stage: StageView) -> dict[Axis, Bits | None]:
        """The live values of the data axes of a stage."""
        needed = [masks for tensor in stage.state.tensors for masks in self.needed.get(tensor, [])]
        axes = stage.state.computation.axes
        if not needed:  # the stage is dead
            return {axis: np.zeros(axis.extent, np.bool_) for axis in axes}
        return dict(zip(axes, united(needed), strict=True))

    def _domain_of(self, tensor: Tensor) -> Masks:
        """The elements of an output that are in its domain."""
        stage = self.schedule.producer(tensor)
        assert stage is not None, f"output {tensor.name} has no producer"
        computation = stage.state.computation
        if computation.where is None:
            return _whole(tensor)
        points = CountedPoints(dict.fromkeys(computation.axes), [(computation.where, True)])
        return points.read(tuple(axis + 0 for axis in computation.axes), tensor.shape)

    def _producer_of(self, tensor: Tensor) -> Computation | None:
        stage = self.schedule.producer(tensor)
        return None if stage is None else stage.state.computation

    def _stages(self, stored: int) -> tuple[StageBound, ...]:
        """The implementations with the least cycles, with shared layouts; ``stored``: beats of the outputs."""
        axes = {stage: self._axes(stage) for stage in self.schedule.stages}
        loads = {stage: _Loads(self, stage, axes[stage]) for stage in self.schedule.stages}
        implementations = {
            stage: StageImplementations(stage.state.computation, axes[stage], self._producer_of, self.config)
            for stage in self.schedule.stages
        }
        layouts = SharedLayouts(self.schedule, implementations, lambda stage, each: loads[stage].cycles(each))
        chosen = min(layouts.choices(), key=lambda each: self._cycles(each, loads, stored))
        return tuple(self._stage(stage, chosen[stage], loads[stage]) for stage in self.schedule.stages)

    def _cycles(
        self, chosen: Mapping[StageView, Implementation], loads: "Mapping[StageView, _Loads]", stored: int
    ) -> tuple[int, int]:
        """The lower bound with these implementations, then the compute cycles alone, to break ties."""
        steps, read = 0, dict[Tensor, int]()
        for stage, implementation in chosen.items():
            steps += implementation.steps
            for tensor, (size, _) in loads[stage].of(implementation).items():
                read[tensor] = max(read.get(tensor, 0), size)
        moved, memory = sum(beats(size, self.config) for size in read.values()), self.config.memory
        busy = moved + stored if memory.shared_bandwidth else max(moved, stored)
        return max(steps, busy * memory.cycles_per_beat), steps

    def _stage(self, stage: StageView, chosen: Implementation, loads: "_Loads") -> StageBound:
        """The bound of a stage with this implementation, whose loads are recorded."""
        for tensor, load in loads.of(chosen).items():
            self.loads[tensor] = max(self.loads.get(tensor, load), load)
        if chosen.operands:
            self._layer(stage, loads.of_operands(chosen))
        cycles = (chosen.gemm, chosen.reset, chosen.alu, chosen.rescale)
        return StageBound(stage.name, chosen.unit, *cycles, chosen.products)

    def _layer(self, stage: StageView, operands: Mapping[Source, tuple[int, str]]) -> None:
        """Record the bytes that a GEMM reads, and those of them that another stage has stored."""
        sizes = {INP: 0, WGT: 0}
        for source, (size, scope) in operands.items():
            if scope in sizes:
                sizes[scope] += size
            if self.schedule.producer(source.read.tensor) is not None:
                tensor = source.read.tensor
                written = bytes_stored(tensor, _whole(tensor), self.config)
                self.between[tensor] = self.between.get(tensor, written) + size
        result = next(iter(stage.state.tensors))
        lanes = any_lanes(ACC, result.ndim, self.config)
        results = bytes_loaded(result, _whole(result), ACC, lanes, self.config) // loaded_bytes(
            self.config, ACC, result.dtype
        )
        self.layers.append(GemmTraffic(sizes[INP], sizes[WGT], results))


class _Loads:
    """Bytes of inputs that a stage loads, by implementation."""

    def __init__(self, program: _Program, stage: StageView, axes: dict[Axis, Bits | None]) -> None:
        self.program, self.stage, self.axes = program, stage, axes
        own = own_operands(stage.state.computation, program.config)
        self.known: dict[tuple[bool, tuple[object, ...]], dict[Tensor, tuple[int, str]]] = {}
        self.read: dict[tuple[Tensor, str], list[Masks]] = {}
        for read in stage.state.computation.reads:
            if program.schedule.producer(read.tensor) is None:
                key = read.tensor, own.get(read.node, ACC)
                self.read.setdefault(key, []).append(_read(stage, axes, read))

    def cycles(self, chosen: Implementation) -> int:
        """Bus cycles of the loads of an implementation."""
        config = self.program.config
        return sum(beats(size, config) for size, _ in self.of(chosen).values()) * config.memory.cycles_per_beat

    def of(self, chosen: Implementation) -> dict[Tensor, tuple[int, str]]:
        """Bytes of each tensor, and the memory that they are loaded to."""
        key = chosen.unit == "copy", tuple(chosen.operands.items())
        if key not in self.known:
            self.known[key] = self._of(chosen)
        return self.known[key]

    def _of(self, chosen: Implementation) -> dict[Tensor, tuple[int, str]]:
        config = self.program.config
        loads: dict[Tensor, tuple[int, str]] = {}
        for source, (size, scope) in self.of_operands(chosen).items():
            if self.program.schedule.producer(source.read.tensor) is None:
                _add(loads, source.read.tensor, size, scope)
        for (tensor, scope), reads in self.read.items():
            if chosen.operands and scope == ACC:
                continue
            masks = united(reads)
            by_gemm = scope == ACC and is_elementwise(self.stage.state.computation)  # an identity GEMM can load it
            if chosen.unit == "copy" or by_gemm:
                size = loaded_anywhere(tensor, masks, config)
            else:
                size = bytes_loaded(tensor, masks, scope, any_lanes(scope, len(masks), config), config)
            _add(loads, tensor, size, scope)
        return loads

    def of_operands(self, chosen: Implementation) -> dict[Source, tuple[int, str]]:
        """Bytes of the GEMM operands, inputs or not, and the memory that they are loaded to."""
        loads: dict[Source, tuple[int, str]] = {}
        for source, (scope, lanes) in chosen.operands.items():
            axes = {**self.axes, **dict.fromkeys(self.stage.state.computation.reduce_axes)}
            masks = CountedPoints(axes, source.inside).read(source.read.indices, source.read.tensor.shape)
            loads[source] = bytes_loaded(source.read.tensor, masks, scope, lanes, self.program.config), scope
        return loads


def _add(loads: dict[Tensor, tuple[int, str]], tensor: Tensor, size: int, scope: str) -> None:
    loads[tensor] = max(loads.get(tensor, (0, scope)), (size, scope))


def _read(stage: StageView, axes: Mapping[Axis, Bits | None], read: ReadAccess) -> Masks:
    """The elements that a read of a stage accesses at live points."""
    points = CountedPoints({**axes, **dict.fromkeys(stage.state.computation.reduce_axes)}, read.guards)
    return points.read(read.indices, read.tensor.shape)


def _whole(tensor: Tensor) -> Masks:
    return tuple(np.ones(extent, np.bool_) for extent in tensor.shape)


__all__ = ["Bound", "StageBound", "bound_of"]
