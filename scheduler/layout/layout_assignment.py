"""Which dimensions become rows and columns of elements: found from the matrix products, spread along element-wise use.

A product ``D[.., j] += X[.., k] * W[j, k]`` says it all: columns of D are rows of W (j), columns of X are columns of W
(k), rows of D are rows of X. Element-wise computations and copies keep lanes, so the rest follows from their indices,
forwards first. Where nothing is said, the dimensions are taken that every computation leads through unchanged: not
those that are reduced, shifted, strided or decided upon.
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
from lathe.scheduler.layout.layout_conflicts import obstacles_of
from lathe.scheduler.layout.layout_transfer import lanes_back, lanes_read, lanes_through
from lathe.scheduler.layout.match_depthwise import diagonal_product, is_given
from lathe.scheduler.layout.match_gemm import (
    GemmMatch,
    SequentialAxes,
    filled,
    is_computed,
    lanes_of_operand,
    matrix_product,
    may_end,
    turning_product,
)
from lathe.scheduler.layout.rescaling import own_operands
from lathe.scheduler.layout.subvector_tiling import Cuts, steps_between_chunks
from lathe.scheduler.layout.vector_type import element_of, whole_elements
from lathe.scheduler.rewriting.matchers import dimension_of, match_gemm_operands
from lathe.scheduler.schedule_ir.memories import ACC, INP, OPERANDS, WGT
from lathe.scheduler.schedule_ir.schedule import ScheduleView
from lathe.scheduler.schedule_ir.stage import StageState, VectorLayout


def assign_lanes(schedule: ScheduleView, config: HardwareConfig) -> dict[Tensor, VectorLayout]:
    """Lanes of every tensor that a stage makes; placeholders follow their readers (``lanes_through``)."""
    return assign_layouts(schedule, config).known


@dataclass
class LayoutAssignment:
    """``known``: the lanes of every tensor that a stage makes; ``products``: the matrix product making it, if any.

    Several ask for the same plan, and nobody changes it once it is made.
    """

    known: dict[Tensor, VectorLayout] = field(default_factory=dict)
    products: dict[Tensor, GemmMatch | None] = field(default_factory=dict)


def assign_layouts(schedule: ScheduleView, config: HardwareConfig) -> LayoutAssignment:
    """The lanes of a whole schedule, and the products as they were chosen along with them.

    The last plan is kept with the schedule and holds until its state is another; then what has changed is planned anew.
    """
    kept = schedule.derived.get("lanes")
    if kept is not None and kept[0] is schedule.state and kept[1] == config:
        found: LayoutAssignment = kept[2]
        return found
    planner: _Planner | None = schedule.derived.pop("planner", None)
    if planner is None or planner.config != config:
        planner = _Planner(schedule, config)
    plan = planner.planned()
    schedule.derived["planner"] = planner  # not before: an error would leave it halfway
    schedule.derived["lanes"] = schedule.state, config, plan
    return plan


class _Planner:
    """Plans the lanes of a schedule again and again."""

    def __init__(self, schedule: ScheduleView, config: HardwareConfig) -> None:
        self.schedule = schedule
        self.config = config
        self.element = element_of(config, ACC)
        self.step = whole_elements(config)
        self.answers: dict[tuple[object, ...], GemmMatch | None] = {}
        self._begin_anew()

    def _begin_anew(self) -> None:
        self.constants = self.schedule.state.constants
        self.cuts = Cuts(self.schedule, {self.element.rows, self.element.cols})
        self.hearing = IncrementalAnalysis(self.visit)
        self.makers = TrackedLookup(self.schedule, self.hearing)

    def planned(self) -> LayoutAssignment:
        """The lanes and products of the schedule as it is now."""
        states = {stage.id: stage.state for stage in self.schedule.stages}
        if self.schedule.state.constants is not self.constants or self.hearing.stages.is_reordered(states):
            self._begin_anew()
        changes = self.hearing.stages.changed(states)
        self.hearing.renew(changes, self.cuts.renew(changes))
        known = self.hearing.lanes.copy()
        self.stages = list(states.values())
        self.spread(known)
        while len(known) < len(self.hearing.stages.makers):
            open_ = (state for state in reversed(self.stages) if state.tensor not in known)
            known.update(self.decide(next(open_), known))
        return LayoutAssignment(known, self.hearing.products.copy())

    def visit(self, state: StageState, known: LayoutScope) -> GemmMatch | None:
        """What a stage says once those before it have spoken: lanes of tensors, and the product that it is."""
        config, product = self.config, None
        if _is_turn(state):
            assert state.lanes is not None, f"{state.tensor.name} has no lanes"
            product = turning_product(state.computation, state.lanes)
        elif not state.on_alu:
            product = self._asked(matrix_product, state, known)
            if state.pragma is not None and product is not None and product.column is None:
                # Who names the instruction means whole vectors: a tile that cuts them is refused.
                product = self._asked(matrix_product, state, known, cut=True)
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
            maker = self.hearing.look(read.tensor)
            says = (WGT,) if product.turns is None else OPERANDS  # memories of which the product has the say
            if maker is not None and (read.tensor not in known or maker.scope in says):
                known.update(dict.fromkeys(maker.tensors, lanes_of_operand(product, scope, config)))
                self._backwards(maker, known)
        return product

    def _asked(
        self, question: Callable[..., GemmMatch | None], state: StageState, known: LayoutScope, cut: bool = False
    ) -> GemmMatch | None:
        """The product that a stage is, as a function says; what it has said with the same operands is kept.

        ``cut``: loops may cut its lanes.
        """
        pair = match_gemm_operands(state.computation)
        if pair is None:
            return None
        operands = [self._operand(read.tensor, known) for read in pair]
        walked = self._walked(state, cut)
        key = (question, state.computation, state.lanes, walked, *operands)
        if key not in self.answers:
            self.answers[key] = question(state.computation, self.config, self.makers, known, state.lanes, walked)
        return self.answers[key]

    def _walked(self, state: "StageState", cut: bool) -> SequentialAxes:
        """The axes along which a stage is made one value at a time, or that loops cut within blocks of lanes."""
        walked = frozenset(state.sequential_dims)
        rows, cols = walked, walked
        if state.lanes is None and not cut:
            rows, cols = (
                walked | self.cuts.of(state.tensor, block) for block in (self.element.rows, self.element.cols)
            )
        axes = state.computation.axes
        return SequentialAxes(frozenset([axes[dim] for dim in rows]), frozenset([axes[dim] for dim in cols]))

    def _operand(self, tensor: Tensor, known: LayoutScope) -> tuple[object, ...]:
        """All of a tensor that decides what a product of it is: its place, its lanes, and where it comes from."""
        makers, made = self.makers, is_computed(tensor, self.makers)
        copied = not made and not is_computed(tensor, makers, borders=False)
        return makers.scope_of(tensor), known.get(tensor), made, copied, is_given(tensor, makers)

    def _or_with_diagonals(self, state: StageState, product: GemmMatch | None, known: LayoutScope) -> GemmMatch | None:
        """The product with diagonal weights, where there is one that leaves no more multipliers idle."""
        if state.pragma not in (None, "gemm"):
            return product
        if product is not None and _is_long(product.inner) and _is_long(product.column):
            return product  # a matrix product in earnest, whose result is to stay in the lanes of its columns
        other = self._asked(diagonal_product, state, known)
        if other is None:
            return product
        thin = state.lanes is None and product is not None and product.is_thin(self.config)  # as before it is placed
        brings = other.weight.tensor in self.constants and all(
            axis.extent == 1 for axis in state.computation.reduce_axes
        )  # an operand of an addition, by ones of the compiler's: it is no weights, of which most lanes would be empty
        if product is not None and not (thin or brings) and product.fill(self.config) > other.fill(self.config):
            have = known.get(product.data.tensor)
            along = [dimension_of(each.data, each.inner, self.step) for each in (other, product)]
            if have is None or have.cols != along[0] or have.cols == along[1]:
                return product  # or else it would want data that have been made in the lanes of the other
        return other

    def _without_obstacles(self, state: StageState, product: GemmMatch, known: LayoutScope) -> GemmMatch:
        """The product with those summed lanes that the computations before it lead through, if it has a choice."""
        data = product.data
        maker = self.hearing.look(data.tensor)
        if maker is None or data.tensor in known:
            return product
        found: list[tuple[int, float, GemmMatch]] = []
        for axis in (product.inner, *state.computation.reduce_axes):
            dim = dimension_of(data, axis, self.step)
            if axis is None or dim is None or dimension_of(product.weight, axis, self.step) is None:
                continue
            if not may_end(axis, element_of(self.config, INP).cols, (data, product.weight)):
                continue
            other = replace(product, inner=axis)
            trial = known.trying(dict.fromkeys(maker.tensors, lanes_of_operand(other, INP, self.config)))
            self._backwards(maker, trial)
            new = {id(made): made for made in map(self.hearing.look, trial.said.keys() - known.said.keys()) if made}
            count = sum(self.obstacles(each, trial) for each in new.values())
            found.append((count, -filled(axis, element_of(self.config, INP).cols), other))
        return min(found, key=lambda each: each[:2])[2] if found else product

    def spread(self, known: dict[Tensor, VectorLayout]) -> None:
        """Along copies and element-wise stages, both ways, as far as it goes."""
        while len(known) < len(self.hearing.stages.makers):
            before = len(known)
            for state in (*self.stages, *reversed(self.stages)):
                if self.hearing.products[state.tensor] is None:
                    self._backwards(state, known)
                    self._forwards(state, known)
            if len(known) == before:
                return

    def _forwards(self, state: StageState, known: LayoutEnv) -> None:
        if state.tensor in known:
            return
        for access in _of_rank_first(state.computation):
            if access.tensor in known and access.node not in own_operands(state.computation, self.config):
                theirs = known[access.tensor]
                lanes = lanes_back(state.computation, access, theirs)
                if lanes is not None:
                    if state.scope == ACC and not theirs.is_diagonal:  # elements as wide, whose order stays
                        lanes = replace(lanes, turns=theirs.turns or None)
                    known.update(dict.fromkeys(state.tensors, lanes))
                    return

    def _backwards(self, state: StageState, known: LayoutEnv) -> None:
        if state.tensor not in known or not self.hearing.is_no_product(state.tensor):
            return  # what comes later, as in a cycle, speaks for itself
        for access in state.computation.reads:
            maker = self.hearing.look(access.tensor)
            if maker is not None and access.tensor not in known:
                lanes = lanes_read(state.computation, access, known[state.tensor], self.config)
                known.update(dict.fromkeys(maker.tensors, lanes))  # one stage makes its outputs in the same lanes
                self._backwards(maker, known)

    def decide(self, state: StageState, known: dict[Tensor, VectorLayout]) -> dict[Tensor, VectorLayout]:
        """Choose for a tensor that nothing is said about: what least stands in the way, then fills lanes best."""
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
        """In how many dimensions the loops of a stage cut its elements."""
        steps = steps_between_chunks(self.schedule.by_id(self.hearing.stages.makers[state.tensor]))
        sides = self.element.sides(lanes) if any(steps) else ()
        return sum(1 for dim, block in sides if dim is not None and steps[dim] % block)

    def obstacles(self, state: StageState, known: LayoutEnv) -> int:
        """How many reads of an element-wise stage do not lead its lanes through."""
        if state.tensor not in known or not self.hearing.is_no_product(state.tensor):
            return 0
        return len(obstacles_of(state, known, self.element, self.config))


def _is_turn(state: StageState) -> bool:
    """Whether a stage is a product that only moves blocks; the ALU may make elements in such an order, too."""
    turned = state.lanes is not None and state.lanes.turns is not None
    return turned and bool(state.computation.reduce_axes) and match_gemm_operands(state.computation) is not None


@lru_cache(maxsize=4096)
def _of_rank_first(computation: Computation) -> list[ReadAccess]:
    """What a computation reads, first what has as many dimensions as it has itself."""
    return sorted(computation.reads, key=lambda access: len(access.indices) != len(computation.axes))


def _is_long(axis: Axis | None) -> bool:
    return axis is not None and axis.extent > 1


def conflict_of_lanes(schedule: ScheduleView, config: HardwareConfig) -> str:
    """A sentence on a tensor that has one dimension in lanes and is needed with another by an element-wise reader."""
    plan, element = assign_layouts(schedule, config), element_of(config, ACC)
    made_here = {tensor for stage in schedule.stages for tensor in stage.state.tensors}
    for reader in schedule.stages:
        for access in reader.state.computation.reads:
            if access.tensor not in made_here or plan.products[reader.tensor] is not None:
                continue
            if access.node in own_operands(reader.state.computation, config):
                continue
            wanted = lanes_through(reader.state.computation, access, plan.known[reader.tensor])
            for side, block in (("rows", element.rows), ("cols", element.cols)):
                made, needed = getattr(plan.known[access.tensor], side), getattr(wanted, side)
                if block > 1 and made != needed:
                    return (
                        f"Behind this: {access.tensor.name} has {_named(made)} in the lanes of its elements, and "
                        f"{reader.name} needs it with {_named(needed)} there, which no instruction can change. Use one "
                        "image layout throughout, or build the program in two parts."
                    )
    return ""


def _named(dim: int | None) -> str:
    return "no dimension" if dim is None else f"dimension {dim}"
