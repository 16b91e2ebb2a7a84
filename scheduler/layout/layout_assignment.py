"""Layout assignment: which dimension of each tensor maps to the rows and which to the columns of vectors.

A GEMM ``D[.., j] += X[.., k] * W[j, k]`` fixes the layouts of its operands and result: columns of D are rows of W (j),
columns of X are columns of W (k), rows of D are rows of X. Element-wise computations and copies preserve layouts, so
layouts are propagated along their indices, forward first. Tensors that no GEMM reaches get the dimensions that all
computations preserve best: not those that are reduced, shifted, strided or selected on.
"""

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import lru_cache
from math import prod

from lathe.configs import HardwareConfig
from lathe.frontend import Computation, Tensor
from lathe.frontend.expr.nodes import Axis, ReadAccess
from lathe.scheduler.layout.incremental_layout_analysis import (
    IncrementalAnalysis,
    LayoutEnv,
    LayoutScope,
    TrackedLookup,
)
from lathe.scheduler.layout.layout_conflicts import layout_obstacles
from lathe.scheduler.layout.layout_transfer import elementwise_operand_layout, lanes_back, operand_layout
from lathe.scheduler.layout.match_depthwise import is_given, match_depthwise
from lathe.scheduler.layout.match_gemm import (
    GemmMatch,
    SequentialAxes,
    filled,
    gemm_operand_layout,
    is_computed,
    match_gemm,
    may_end,
    turning_product,
)
from lathe.scheduler.layout.rescaling import own_operands
from lathe.scheduler.layout.subvector_tiling import Cuts, steps_between_chunks
from lathe.scheduler.layout.vector_type import largest_block, vector_type_of
from lathe.scheduler.rewriting.matchers import dim_indexed_by, match_gemm_operands
from lathe.scheduler.schedule_ir.memories import ACC, INP, OPERANDS, WGT
from lathe.scheduler.schedule_ir.schedule_state import ScheduleView
from lathe.scheduler.schedule_ir.stage import StageState, VectorLayout


def assign_lanes(schedule: ScheduleView, config: HardwareConfig) -> dict[Tensor, VectorLayout]:
    """The layout of every computed tensor; placeholders follow their consumers (``elementwise_operand_layout``)."""
    return assign_layouts(schedule, config).layouts


@dataclass
class LayoutAssignment:
    """``known``: the layout of every tensor that a stage computes; ``gemms``: the GEMM that computes it, if any.

    It is shared by all callers, and must not be changed.
    """

    layouts: dict[Tensor, VectorLayout] = field(default_factory=dict)
    gemms: dict[Tensor, GemmMatch | None] = field(default_factory=dict)


def assign_layouts(schedule: ScheduleView, config: HardwareConfig) -> LayoutAssignment:
    """Assign layouts to all tensors of a schedule, and match its GEMMs.

    The result is cached with the schedule; when its state has changed, only what depends on the change is recomputed.
    """
    cached = schedule.derived.get("lanes")
    if cached is not None and cached[0] is schedule.state and cached[1] == config:
        assignment: LayoutAssignment = cached[2]
        return assignment
    planner: _Planner | None = schedule.derived.pop("planner", None)
    if planner is None or planner.config != config:
        planner = _Planner(schedule, config)
    plan = planner.planned()
    schedule.derived["planner"] = planner  # only now: after an error it would be half updated
    schedule.derived["lanes"] = schedule.state, config, plan
    return plan


class _Planner:
    """Assigns the layouts of a schedule, incrementally from state to state."""

    def __init__(self, schedule: ScheduleView, config: HardwareConfig) -> None:
        self.schedule = schedule
        self.config = config
        self.element = vector_type_of(config, ACC)
        self.step = largest_block(config)
        self.matches: dict[tuple[object, ...], GemmMatch | None] = {}
        self._reset()

    def _reset(self) -> None:
        self.constants = self.schedule.state.constants
        self.cuts = Cuts(self.schedule, {self.element.rows, self.element.cols})
        self.analysis = IncrementalAnalysis(self.visit)
        self.producers = TrackedLookup(self.schedule, self.analysis)

    def planned(self) -> LayoutAssignment:
        """The layouts and GEMMs of the schedule in its present state."""
        states = {stage.id: stage.state for stage in self.schedule.stages}
        if self.schedule.state.constants is not self.constants or self.analysis.stages.is_reordered(states):
            self._reset()
        changes = self.analysis.stages.changed(states)
        self.analysis.renew(changes, self.cuts.renew(changes))
        known = self.analysis.lanes.copy()
        self.stages = list(states.values())
        self.spread(known)
        while len(known) < len(self.analysis.stages.producers):
            unassigned = (state for state in reversed(self.stages) if state.tensor not in known)
            known.update(self.decide(next(unassigned), known))
        return LayoutAssignment(known, self.analysis.products.copy())

    def visit(self, state: StageState, known: LayoutScope) -> GemmMatch | None:
        """Analyse one stage, given the results of those before it: add layouts to ``known``, and match its GEMM."""
        config, product = self.config, None
        if _is_conversion(state):
            assert state.vector_layout is not None, f"{state.tensor.name} has no layout"
            product = turning_product(state.computation, state.vector_layout)
        elif not state.on_alu:
            product = self._match(match_gemm, state, known)
            if state.pragma is not None and product is not None and product.column is None:
                # emit_insn asks for whole vectors: keep the axis, so that a tile that cuts them is refused.
                product = self._match(match_gemm, state, known, cut=True)
            product = self._or_with_diagonals(state, product, known)
        if product is not None and not product.diagonal and product.turns is None:
            product = self._without_obstacles(state, product, known)
        if product is None:
            self._forwards(state, known)
            return None
        positions = {axis: dim for dim, axis in enumerate(state.computation.axes)}
        row = positions.get(product.row) if product.row is not None and self.element.rows > 1 else None
        column = positions.get(product.column) if product.column is not None else None
        known.update({tensor: VectorLayout(row, column) for tensor in state.tensors if tensor not in known})
        for scope, read in zip(OPERANDS, (product.data, product.weight), strict=True):
            producer = self.analysis.look(read.tensor)
            fixed = (WGT,) if product.turns is None else OPERANDS  # memories whose layout the GEMM determines alone
            if producer is not None and (read.tensor not in known or producer.scope in fixed):
                known.update(dict.fromkeys(producer.tensors, gemm_operand_layout(product, scope, config)))
                self._backwards(producer, known)
        return product

    def _match(
        self, matcher: Callable[..., GemmMatch | None], state: StageState, known: LayoutScope, cut: bool = False
    ) -> GemmMatch | None:
        """The GEMM that a matcher finds in a stage, cached by the facts about its operands that it depends on.

        ``cut``: axes that loops tile below vector width may be rows and columns.
        """
        pair = match_gemm_operands(state.computation)
        if pair is None:
            return None
        operands = [self._operand(read.tensor, known) for read in pair]
        sequential = self._sequential_axes(state, cut)
        key = (matcher, state.computation, state.vector_layout, sequential, *operands)
        if key not in self.matches:
            self.matches[key] = matcher(
                state.computation, self.config, self.producers, known, state.vector_layout, sequential
            )
        return self.matches[key]

    def _sequential_axes(self, state: "StageState", cut: bool) -> SequentialAxes:
        """The axes that a stage computes one value at a time (recurrences), or that loops tile below vector width."""
        dims = frozenset(state.sequential_dims)
        rows, cols = dims, dims
        if state.vector_layout is None and not cut:
            rows, cols = (dims | self.cuts.of(state.tensor, block) for block in (self.element.rows, self.element.cols))
        axes = state.computation.axes
        return SequentialAxes(frozenset([axes[dim] for dim in rows]), frozenset([axes[dim] for dim in cols]))

    def _operand(self, tensor: Tensor, known: LayoutScope) -> tuple[object, ...]:
        """The facts about an operand that a GEMM match depends on: its memory, layout and origin."""
        producers, computed = self.producers, is_computed(tensor, self.producers)
        copied = not computed and not is_computed(tensor, producers, borders=False)
        return producers.scope_of(tensor), known.get(tensor), computed, copied, is_given(tensor, producers)

    def _or_with_diagonals(self, state: StageState, product: GemmMatch | None, known: LayoutScope) -> GemmMatch | None:
        """The GEMM with diagonal weights instead, if there is one that leaves no more multipliers idle."""
        if state.pragma not in (None, "gemm"):
            return product
        if product is not None and _is_long(product.inner) and _is_long(product.column):
            return product  # a real GEMM, with reduction and columns: its result keeps its columns in the lanes
        other = self._match(match_depthwise, state, known)
        if other is None:
            return product
        thin = (
            state.vector_layout is None and product is not None and product.is_thin(self.config)
        )  # wherever its operands are
        is_identity = other.weight.tensor in self.constants and all(
            axis.extent == 1 for axis in state.computation.reduce_axes
        )  # ones that the compiler has added, to load an addend by GEMM: as full weights most lanes would be empty
        if product is not None and not (thin or is_identity) and product.fill(self.config) > other.fill(self.config):
            layout = known.get(product.data.tensor)
            along = [dim_indexed_by(each.data, each.inner, self.step) for each in (other, product)]
            if layout is None or layout.cols != along[0] or layout.cols == along[1]:
                return product  # otherwise its data would already have the layout of the diagonal form
        return other

    def _without_obstacles(self, state: StageState, product: GemmMatch, known: LayoutScope) -> GemmMatch:
        """The GEMM with the reduction axis in the lanes that conflicts least with the layouts of earlier stages."""
        data = product.data
        producer = self.analysis.look(data.tensor)
        if producer is None or data.tensor in known:
            return product
        candidates: list[tuple[int, float, GemmMatch]] = []
        for axis in (product.inner, *state.computation.reduce_axes):
            dim = dim_indexed_by(data, axis, self.step)
            if axis is None or dim is None or dim_indexed_by(product.weight, axis, self.step) is None:
                continue
            if not may_end(axis, vector_type_of(self.config, INP).cols, (data, product.weight)):
                continue
            other = replace(product, inner=axis)
            trial = known.trying(dict.fromkeys(producer.tensors, gemm_operand_layout(other, INP, self.config)))
            self._backwards(producer, trial)
            new = {id(each): each for each in map(self.analysis.look, trial.said.keys() - known.said.keys()) if each}
            count = sum(self.obstacles(each, trial) for each in new.values())
            candidates.append((count, -filled(axis, vector_type_of(self.config, INP).cols), other))
        return min(candidates, key=lambda each: each[:2])[2] if candidates else product

    def spread(self, known: dict[Tensor, VectorLayout]) -> None:
        """Propagate layouts along copies and element-wise stages, backward and forward, to a fixed point."""
        while len(known) < len(self.analysis.stages.producers):
            before = len(known)
            for state in (*self.stages, *reversed(self.stages)):
                if self.analysis.products[state.tensor] is None:
                    self._backwards(state, known)
                    self._forwards(state, known)
            if len(known) == before:
                return

    def _forwards(self, state: StageState, known: LayoutEnv) -> None:
        """Propagate the layout of an operand to the result."""
        if state.tensor in known:
            return
        for access in _of_rank_first(state.computation):
            if access.tensor in known and access.node not in own_operands(state.computation, self.config):
                theirs = known[access.tensor]
                lanes = lanes_back(state.computation, access, theirs)
                if lanes is not None:
                    if state.scope == ACC and not theirs.is_diagonal:  # same vector width: a permutation is preserved
                        lanes = replace(lanes, conversions=theirs.conversions or None)
                    known.update(dict.fromkeys(state.tensors, lanes))
                    return

    def _backwards(self, state: StageState, known: LayoutEnv) -> None:
        """Propagate the layout of the result to the operands, and on to theirs."""
        if state.tensor not in known or not self.analysis.is_not_gemm(state.tensor):
            return  # a later stage, in a recurrence, is analysed by itself
        for access in state.computation.reads:
            producer = self.analysis.look(access.tensor)
            if producer is not None and access.tensor not in known:
                lanes = operand_layout(state.computation, access, known[state.tensor], self.config)
                known.update(dict.fromkeys(producer.tensors, lanes))  # all outputs of a stage have one layout
                self._backwards(producer, known)

    def decide(self, state: StageState, known: dict[Tensor, VectorLayout]) -> dict[Tensor, VectorLayout]:
        """Choose a layout that nothing determines: the one with the fewest conflicts, then the best filled lanes."""
        dims = [dim for dim in range(len(state.computation.axes)) if dim not in state.sequential_dims]
        best: tuple[tuple[int, float, int], dict[Tensor, VectorLayout]] | None = None
        for lanes in self.element.possible_lanes(dims):
            trial = {**known, **dict.fromkeys(state.tensors, lanes)}
            self.spread(trial)
            sides = self.element.sides(lanes)
            use = prod(filled(None if dim is None else state.computation.axes[dim], block) for dim, block in sides)
            obstacles = sum(
                self.obstacles(other, trial) + self._cut(other, trial[other.tensor])
                for other in self.stages
                if other.tensor not in known and other.tensor in trial
            )
            cost = (obstacles, -use, -(lanes.cols if lanes.cols is not None else -1))
            if best is None or cost < best[0]:
                best = cost, trial
        assert best is not None
        return best[1]

    def _cut(self, state: StageState, lanes: VectorLayout) -> int:
        """The number of vector dimensions that the loops of a stage tile below vector width."""
        steps = steps_between_chunks(self.schedule.by_id(self.analysis.stages.producers[state.tensor]))
        sides = self.element.sides(lanes) if any(steps) else ()
        return sum(1 for dim, block in sides if dim is not None and steps[dim] % block)

    def obstacles(self, state: StageState, known: LayoutEnv) -> int:
        """The number of layout conflicts at the reads of an element-wise stage."""
        if state.tensor not in known or not self.analysis.is_not_gemm(state.tensor):
            return 0
        return len(layout_obstacles(state, known, self.element, self.config))


def _is_conversion(state: StageState) -> bool:
    """Whether a stage is a permutation GEMM (layout conversion); ALU stages may have such a layout too."""
    permuted = state.vector_layout is not None and state.vector_layout.conversions is not None
    return permuted and bool(state.computation.reduce_axes) and match_gemm_operands(state.computation) is not None


@lru_cache(maxsize=4096)
def _of_rank_first(computation: Computation) -> list[ReadAccess]:
    """The reads of a computation, those of as many dimensions as its result first."""
    return sorted(computation.reads, key=lambda access: len(access.indices) != len(computation.axes))


def _is_long(axis: Axis | None) -> bool:
    return axis is not None and axis.extent > 1


def describe_layout_conflict(schedule: ScheduleView, config: HardwareConfig) -> str:
    """A sentence on the first layout conflict between a producer and an element-wise consumer; "" without any."""
    plan, element = assign_layouts(schedule, config), vector_type_of(config, ACC)
    computed = {tensor for stage in schedule.stages for tensor in stage.state.tensors}
    for consumer in schedule.stages:
        for access in consumer.state.computation.reads:
            if access.tensor not in computed or plan.gemms[consumer.tensor] is not None:
                continue
            if access.node in own_operands(consumer.state.computation, config):
                continue
            required = elementwise_operand_layout(consumer.state.computation, access, plan.layouts[consumer.tensor])
            for side, block in (("rows", element.rows), ("cols", element.cols)):
                actual, needed = getattr(plan.layouts[access.tensor], side), getattr(required, side)
                if block > 1 and actual != needed:
                    return (
                        f"Cause: layout conflict on {access.tensor.name}: it is vectorised along {_named(actual)}, but "
                        f"its consumer {consumer.name} needs it vectorised along {_named(needed)}, and no instruction "
                        "converts between the two. Use one image layout throughout, or build the program in two parts."
                    )
    return ""


def _named(dim: int | None) -> str:
    return "no dimension" if dim is None else f"dimension {dim}"
