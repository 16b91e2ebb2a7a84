"""The bound of a program on a machine: cycles that no schedule of it can be quicker than, and what they are made of.

Compute: every stage's steps, whole vectors each. Memory: what comes from the host and goes back to it, once, in whole
elements, over the bus. The greater of the two is the bound: docs/lower-bound.md derives it.
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
from lathe.scheduler.lower_bound.capacity import ProductTraffic
from lathe.scheduler.lower_bound.domain_points import Bits, CountedPoints, Masks, united
from lathe.scheduler.lower_bound.implementations import Implementation, StageImplementations
from lathe.scheduler.lower_bound.mac_counts import Source
from lathe.scheduler.lower_bound.shared_layouts import SharedLanes
from lathe.scheduler.lower_bound.transfer_bytes import any_lanes, beats, bytes_loaded, bytes_stored, loaded_anywhere
from lathe.scheduler.passes.pipeline import run_until
from lathe.scheduler.rewriting.matchers import is_elementwise
from lathe.scheduler.schedule_ir.memories import ACC, INP, PARAMETERS, TABLES, WGT
from lathe.scheduler.schedule_ir.schedule import ScheduleView, StageView
from lathe.scheduler.target.required_extensions import check_extensions

LAST_PASS = "delinearize-axes"
"""The pass behind which the program is looked at: constants folded, reshapes merged, and nothing chosen yet."""
KINDS = {WGT: "weights", PARAMETERS: "parameters", TABLES: "parameters"}


@dataclass(frozen=True)
class StageBound:
    """Steps of the compute unit for one stage: GEMM micro-ops, resets, ALU and RESCALE; and what carries it out.

    ``unit``: "products", "diagonal products", "alu", "rescale" or "copy", which takes no step. ``products``: the
    products of two values that the algorithm sums here, without those with padding.
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
        """All steps, one cycle each."""
        return self.gemm + self.reset + self.alu + self.rescale


@dataclass(frozen=True)
class Bound:
    """What ``lathe.bound`` returns. ``stages`` in their order; bytes of what is moved, by tensor.

    ``inputs``, ``weights`` and ``parameters`` are loaded, ``outputs`` stored; ``beats`` of the bus for all of them.
    ``compute`` and ``memory`` are cycles, and ``cycles``, the bound, is the greater. ``limit`` says which one that is.
    ``sized`` is no bound of all schedules, but told beside it: the cycles where layers go one after the other through
    scratchpads of the machine's sizes, of which ``between`` are bytes stored and loaded between layers, and ``again``
    those that come again for what does not fit (``capacity.py``).
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
        """The bound."""
        return max(self.compute, self.memory)

    @property
    def limit(self) -> Literal["compute", "memory"]:
        """Which of the two bounds; compute where both do."""
        return "compute" if self.compute >= self.memory else "memory"

    @property
    def gemm(self) -> int:
        """Steps of the matrix core that multiply."""
        return sum(each.gemm for each in self.stages)

    @property
    def reset(self) -> int:
        """Steps that set accumulators to what a reduction begins with."""
        return sum(each.reset for each in self.stages)

    @property
    def alu(self) -> int:
        """Steps of ALU instructions."""
        return sum(each.alu for each in self.stages)

    @property
    def rescale(self) -> int:
        """Steps of RESCALE instructions."""
        return sum(each.rescale for each in self.stages)

    @property
    def products(self) -> int:
        """Products of two values that the algorithm sums, without those with padding."""
        return sum(each.products for each in self.stages)

    @property
    def bytes(self) -> int:
        """All bytes that are moved, once."""
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
        f"layer by layer, in scratchpads of this size: {bound.sized:,} cycles, {bound.between:,} bytes between layers, "
        f"{bound.again:,} again"
    )


def bound_of(schedule: ScheduleView, config: HardwareConfig) -> Bound:
    """The bound of the program that a schedule computes, which no command may have touched.

    Raises BuildError for a stage that only an extension computes which the machine has not.
    """
    check_extensions(schedule, config)
    seen = run_until(schedule, config, LAST_PASS)
    found = _Program(seen, config).bound()
    if not any(layout.spread for layout in seen.layouts.values()):
        return found
    apart = _Program(run_until(schedule, config, LAST_PASS, without="merge-conv-groups"), config).bound()
    if apart.cycles <= found.cycles:
        return apart
    products = {each.name: each.products for each in apart.stages}  # of merged groups, those with zeros are none
    return replace(found, stages=tuple(replace(each, products=products[each.name]) for each in found.stages))


class _Program:
    """A program without a schedule: which of each tensor is needed, and what that costs."""

    def __init__(self, schedule: ScheduleView, config: HardwareConfig) -> None:
        self.schedule, self.config = schedule, config
        self.needed: dict[Tensor, list[Masks]] = {tensor: [_whole(tensor)] for tensor in schedule.outputs}
        self.loads: dict[Tensor, tuple[int, str]] = {}
        self.layers: list[ProductTraffic] = []
        self.between: dict[Tensor, int] = {}

    def bound(self) -> Bound:
        """The bound of the program."""
        self._need()
        outputs = {
            tensor.name: bytes_stored(tensor, self._made(tensor), self.config) for tensor in self.schedule.outputs
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
        between, again = sum(self.between.values()), sum(each.again(self.config) for each in self.layers)
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

    def _need(self) -> None:
        """Which elements are needed, from the outputs back; all of what stages need of each other in a circle."""
        seen: set[Tensor] = set()
        stages = self.schedule.stages
        circle = False
        for stage in stages:
            circle = circle or any(
                self.schedule.maker(read.tensor) is not None and read.tensor not in seen
                for read in stage.state.computation.reads
            )
            seen.update(stage.state.tensors)
        if circle:
            self.needed = {tensor: [_whole(tensor)] for stage in stages for tensor in stage.state.tensors}
            return
        for stage in reversed(stages):
            axes = self._axes(stage)
            for read in stage.state.computation.reads:
                if self.schedule.maker(read.tensor) is not None:
                    self.needed.setdefault(read.tensor, []).append(_read(stage, axes, read))

    def _axes(self, stage: StageView) -> dict[Axis, Bits | None]:
        """Which values of the data axes of a stage are needed."""
        parts = [part for tensor in stage.state.tensors for part in self.needed.get(tensor, [])]
        axes = stage.state.computation.axes
        if not parts:  # nobody reads it
            return {axis: np.zeros(axis.extent, np.bool_) for axis in axes}
        return dict(zip(axes, united(parts), strict=True))

    def _made(self, tensor: Tensor) -> Masks:
        """Which elements of an output exist."""
        stage = self.schedule.maker(tensor)
        assert stage is not None, f"{tensor.name} is an output that nothing makes"
        computation = stage.state.computation
        if computation.where is None:
            return _whole(tensor)
        points = CountedPoints(dict.fromkeys(computation.axes), [(computation.where, True)])
        return points.read(tuple(axis + 0 for axis in computation.axes), tensor.shape)

    def _maker(self, tensor: Tensor) -> Computation | None:
        stage = self.schedule.maker(tensor)
        return None if stage is None else stage.state.computation

    def _stages(self, stored: int) -> tuple[StageBound, ...]:
        """The best ways to compute the stages, in the lanes that they share; ``stored``: beats of what leaves them."""
        axes = {stage: self._axes(stage) for stage in self.schedule.stages}
        loads = {stage: _Loads(self, stage, axes[stage]) for stage in self.schedule.stages}
        ways = {
            stage: StageImplementations(stage.state.computation, axes[stage], self._maker, self.config)
            for stage in self.schedule.stages
        }
        lanes = SharedLanes(self.schedule, ways, lambda stage, way: loads[stage].cycles(way))
        chosen = min(lanes.choices(), key=lambda each: self._cycles(each, loads, stored))
        return tuple(self._stage(stage, chosen[stage], loads[stage]) for stage in self.schedule.stages)

    def _cycles(
        self, chosen: Mapping[StageView, Implementation], loads: "Mapping[StageView, _Loads]", stored: int
    ) -> tuple[int, int]:
        """Cycles of stages computed in these ways, of their steps or of what is moved; then steps."""
        steps, read = 0, dict[Tensor, int]()
        for stage, way in chosen.items():
            steps += way.steps
            for tensor, (size, _) in loads[stage].of(way).items():
                read[tensor] = max(read.get(tensor, 0), size)
        moved, memory = sum(beats(size, self.config) for size in read.values()), self.config.memory
        busy = moved + stored if memory.shared_bandwidth else max(moved, stored)
        return max(steps, busy * memory.cycles_per_beat), steps

    def _stage(self, stage: StageView, way: Implementation, loads: "_Loads") -> StageBound:
        """A stage's part, computed in this way."""
        for tensor, load in loads.of(way).items():
            self.loads[tensor] = max(self.loads.get(tensor, load), load)
        if way.operands:
            self._layer(stage, loads.of_operands(way))
        return StageBound(stage.name, way.unit, way.gemm, way.reset, way.alu, way.rescale, way.products)

    def _layer(self, stage: StageView, operands: Mapping[Source, tuple[int, str]]) -> None:
        """Note what a product reads, in all, and what of it another stage has stored."""
        sizes = {INP: 0, WGT: 0}
        for source, (size, scope) in operands.items():
            if scope in sizes:
                sizes[scope] += size
            if self.schedule.maker(source.read.tensor) is not None:
                tensor = source.read.tensor
                written = bytes_stored(tensor, _whole(tensor), self.config)
                self.between[tensor] = self.between.get(tensor, written) + size
        made = next(iter(stage.state.tensors))
        lanes = any_lanes(ACC, made.ndim, self.config)
        results = bytes_loaded(made, _whole(made), ACC, lanes, self.config) // loaded_bytes(
            self.config, ACC, made.dtype
        )
        self.layers.append(ProductTraffic(sizes[INP], sizes[WGT], results))


class _Loads:
    """Bytes that a stage loads of what the host gives, by the way in which it is computed."""

    def __init__(self, program: _Program, stage: StageView, axes: dict[Axis, Bits | None]) -> None:
        self.program, self.stage, self.axes = program, stage, axes
        own = own_operands(stage.state.computation, program.config)
        self.known: dict[tuple[bool, tuple[object, ...]], dict[Tensor, tuple[int, str]]] = {}
        self.read: dict[tuple[Tensor, str], list[Masks]] = {}
        for read in stage.state.computation.reads:
            if program.schedule.maker(read.tensor) is None:
                place = read.tensor, own.get(read.node, ACC)
                self.read.setdefault(place, []).append(_read(stage, axes, read))

    def cycles(self, way: Implementation) -> int:
        """Cycles of the loads of a way."""
        config = self.program.config
        return sum(beats(size, config) for size, _ in self.of(way).values()) * config.memory.cycles_per_beat

    def of(self, way: Implementation) -> dict[Tensor, tuple[int, str]]:
        """Bytes of each tensor, and the memory that they are loaded to."""
        key = way.unit == "copy", tuple(way.operands.items())
        if key not in self.known:
            self.known[key] = self._of(way)
        return self.known[key]

    def _of(self, way: Implementation) -> dict[Tensor, tuple[int, str]]:
        config = self.program.config
        found: dict[Tensor, tuple[int, str]] = {}
        for source, (size, scope) in self.of_operands(way).items():
            if self.program.schedule.maker(source.read.tensor) is None:
                _add(found, source.read.tensor, size, scope)
        for (tensor, scope), parts in self.read.items():
            if way.operands and scope == ACC:
                continue
            masks = united(parts)
            brought = scope == ACC and is_elementwise(self.stage.state.computation)  # by products with ones
            if way.unit == "copy" or brought:
                size = loaded_anywhere(tensor, masks, config)
            else:
                size = bytes_loaded(tensor, masks, scope, any_lanes(scope, len(masks), config), config)
            _add(found, tensor, size, scope)
        return found

    def of_operands(self, way: Implementation) -> dict[Source, tuple[int, str]]:
        """Bytes of what a way reads in lanes of its own, whoever makes it, and the memory that they are loaded to."""
        found: dict[Source, tuple[int, str]] = {}
        for source, (scope, lanes) in way.operands.items():
            axes = {**self.axes, **dict.fromkeys(self.stage.state.computation.reduce_axes)}
            masks = CountedPoints(axes, source.inside).read(source.read.indices, source.read.tensor.shape)
            found[source] = bytes_loaded(source.read.tensor, masks, scope, lanes, self.program.config), scope
        return found


def _add(found: dict[Tensor, tuple[int, str]], tensor: Tensor, size: int, scope: str) -> None:
    found[tensor] = max(found.get(tensor, (0, scope)), (size, scope))


def _read(stage: StageView, axes: Mapping[Axis, Bits | None], read: ReadAccess) -> Masks:
    """What a read of a stage reads at the points that are needed."""
    points = CountedPoints({**axes, **dict.fromkeys(stage.state.computation.reduce_axes)}, read.guards)
    return points.read(read.indices, read.tensor.shape)


def _whole(tensor: Tensor) -> Masks:
    return tuple(np.ones(extent, np.bool_) for extent in tensor.shape)


__all__ = ["Bound", "StageBound", "bound_of"]
