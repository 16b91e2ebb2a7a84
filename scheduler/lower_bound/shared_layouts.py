"""Choice of implementations for all stages, where stages that read 32-bit accumulators share the producer's layout.

STORE writes 8 bits. So a GEMM, the element-wise stages after it and the addends of these have the same axes along rows
and columns, up to the stage that narrows the values to 8 bits. Otherwise a 32-bit tensor is stored as four byte planes,
three of them shifted right, and loaded in another layout, shifted left and added.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple, TypeAlias

from lathe.frontend import as_affine
from lathe.frontend.expr.nodes import Axis, ReadAccess
from lathe.isa import AluOp
from lathe.scheduler.cost.stage_cost import alu_issue_cycles
from lathe.scheduler.lower_bound.implementations import AccLayout, Implementation, StageImplementations
from lathe.scheduler.schedule_ir.schedule_state import ScheduleView, StageView

CONVERSION_CYCLES = 3 * (2 * alu_issue_cycles(AluOp.SHR, immediate=True) + alu_issue_cycles(AluOp.ADD, immediate=False))
"""ALU cycles per 32-bit vector that changes its layout through DRAM."""

MAX_FRONT = 64
"""Greatest size of a Pareto front."""

Class: TypeAlias = int
Chosen: TypeAlias = dict[StageView, Implementation]


class _Choice(NamedTuple):
    """Implementations of several stages: those of two other combinations, overridden by ``own``."""

    steps: int
    loads: int
    own: Chosen
    first: "_Choice | None" = None
    second: "_Choice | None" = None


def _pieces(choice: _Choice) -> Iterator[Chosen]:
    """The implementations in a combination by stage, in pieces of which later ones override earlier ones."""
    waiting = [choice]
    pieces: list[Chosen] = []
    while waiting:
        each = waiting.pop()
        pieces.append(each.own)
        waiting += [other for other in (each.second, each.first) if other is not None]
    return reversed(pieces)


def _pareto_front(choices: list[_Choice]) -> list[_Choice]:
    """The Pareto front of compute and load cycles; if it is too large, an evenly spaced selection."""
    front: list[_Choice] = []
    for each in sorted(choices, key=lambda each: (each.steps, each.loads)):
        if not front or each.loads < front[-1].loads:
            front.append(each)
    if len(front) > MAX_FRONT:
        front = [front[n * (len(front) - 1) // (MAX_FRONT - 1)] for n in range(MAX_FRONT)]
    return front


class SharedLayouts:
    """Groups of stages that share an accumulator layout; ``loading``: bus cycles that an implementation takes."""

    def __init__(
        self,
        schedule: ScheduleView,
        options: Mapping[StageView, StageImplementations],
        loading: Callable[[StageView, Implementation], int],
    ) -> None:
        self.options, self.loading = options, loading
        self.members: list[dict[StageView, Axis]] = []
        self.of_axis: dict[tuple[StageView, Axis], Class] = {}
        self.group = {stage: [stage] for stage in schedule.stages}
        self.read_wide: set[StageView] = set()
        for stage in schedule.stages:
            for axis in stage.state.computation.axes:
                self.of_axis[stage, axis] = len(self.members)
                self.members.append({stage: axis})
        for stage in schedule.stages:
            for read in stage.state.computation.reads:
                producer = schedule.producer(read.tensor)
                if producer is not None and producer is not stage and read.tensor.dtype == "int32":
                    self._share_layout(stage, producer, read)

    def choices(self) -> Iterator[Chosen]:
        """The Pareto-optimal choices of an implementation for each stage, by compute and load cycles."""
        groups = {id(group): group for group in self.group.values()}.values()
        for combination in self._combined(map(self._of_group, groups)):
            yield {stage: each for piece in _pieces(combination) for stage, each in piece.items()}

    def _of_group(self, group: Sequence[StageView]) -> list[_Choice]:
        choices = [each for layouts in self._layouts(group) for each in self._with_layouts(layouts)]
        if len(group) > 1:
            choices += self._with_conversion(group)
        assert choices, f"no implementation of {group[0].name}"
        return _pareto_front(choices)

    def _layouts(self, group: Sequence[StageView]) -> Iterator[dict[StageView, AccLayout]]:
        """The possible layouts of a group, by stage."""
        candidates = dict.fromkeys(
            (self._class_of(stage, layout.row), self._class_of(stage, layout.column))
            for stage in group
            for layout in self.options[stage].layouts
        )
        for classes in candidates:
            yield {stage: AccLayout(*(self._axis_of(stage, each) for each in classes)) for stage in group}

    def _with_conversion(self, group: Sequence[StageView]) -> list[_Choice]:
        """Each stage in its best layout, with the cost of converting the smallest 32-bit tensor between them."""
        fewest = {s: min(map(self.options[s].vectors, self.options[s].layouts)) for s in group if s in self.read_wide}
        converted = min(fewest, key=lambda stage: fewest[stage])
        fronts: list[list[_Choice]] = []
        for stage in group:
            alone = [each for layout in self.options[stage].layouts for each in self._of_stage(stage, layout)]
            assert alone, f"no implementation of {stage.name}"
            fronts.append(_pareto_front(alone))
        steps = CONVERSION_CYCLES * fewest[converted]
        return [
            _Choice(each.steps + steps, each.loads, {converted: replace(chosen, alu=chosen.alu + steps)}, each)
            for each in self._combined(fronts)
            for chosen in [next(piece[converted] for piece in _pieces(each) if converted in piece)]
        ]

    def _with_layouts(self, layouts: Mapping[StageView, AccLayout]) -> list[_Choice]:
        """The implementations of stages with these layouts; none if one of the stages has none."""
        return self._combined(self._of_stage(stage, layout) for stage, layout in layouts.items())

    def _of_stage(self, stage: StageView, layout: AccLayout) -> list[_Choice]:
        return [
            _Choice(each.steps, self.loading(stage, each), {stage: each}) for each in self.options[stage].at(layout)
        ]

    def _combined(self, fronts: Iterable[list[_Choice]]) -> list[_Choice]:
        """The Pareto front of all combinations of one element of each front."""
        both = [_Choice(0, 0, {})]
        for front in fronts:
            both = _pareto_front([_Choice(a.steps + b.steps, a.loads + b.loads, {}, a, b) for a in both for b in front])
        return both

    def _class_of(self, stage: StageView, axis: Axis | None) -> Class | None:
        return None if axis is None else self.of_axis[stage, axis]

    def _axis_of(self, stage: StageView, each: Class | None) -> Axis | None:
        return None if each is None else self.members[each].get(stage)

    def _share_layout(self, stage: StageView, producer: StageView, read: ReadAccess) -> None:
        """Merge the groups of two stages, if a read maps axes of the consumer to those of the producer one to one."""
        pairs = _matching_axes(stage, producer, read)
        if pairs is None:
            return
        classes = [(self.of_axis[stage, own], self.of_axis[producer, other]) for own, other in pairs]
        if any(a != b and self.members[a].keys() & self.members[b].keys() for a, b in classes):
            return  # two axes of a stage would be in the same class
        for a, b in classes:
            if a != b:
                self.members[a].update(self.members[b])
                self.of_axis.update(dict.fromkeys(self.members[b].items(), a))
        self.read_wide.add(producer)
        group, other = self.group[stage], self.group[producer]
        if group is not other:
            merged = sorted([*group, *other], key=list(self.group).index)
            self.group.update(dict.fromkeys(merged, merged))


def _matching_axes(stage: StageView, producer: StageView, read: ReadAccess) -> list[tuple[Axis, Axis]] | None:
    """Pairs of a consumer's axis and the producer's axis that it reads with unit stride; None if they don't match."""
    pairs: list[tuple[Axis, Axis]] = []
    for index, axis in zip(read.indices, producer.state.computation.axes, strict=True):
        affine = as_affine(index)
        strides = {} if affine is None else affine.coefficients
        if tuple(strides.values()) == (1,):
            pairs.append((next(iter(strides)), axis))
        elif axis.extent > 1:
            return None
    own = [axis for axis, _ in pairs]
    axes = stage.state.computation.axes
    if len(set(own)) < len(own) or not {axis for axis in axes if axis.extent > 1} <= set(own) <= set(axes):
        return None
    return pairs


__all__ = ["SharedLayouts"]
