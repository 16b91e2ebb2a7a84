"""Stages that share the lanes of accumulators: sums of 32 bits are read in the lanes in which they were made.

What is stored has 8 bits. So a product, what is computed of its sums by element, and what is added to them have the
same axes in rows and columns, up to the stage that narrows them; or such a tensor is stored in four planes of bytes,
each after the first shifted down, and put together again in other lanes, each shifted up and added.
"""

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import NamedTuple, TypeAlias

from lathe.frontend import as_affine
from lathe.frontend.expr.nodes import Axis, ReadAccess
from lathe.isa import AluOp
from lathe.scheduler.cost.issue_cycles import steps_of_alu
from lathe.scheduler.lower_bound.implementations import BoundPlace, Implementation, StageImplementations
from lathe.scheduler.schedule_ir.schedule import ScheduleView, StageView

MOVED = 3 * (2 * steps_of_alu(AluOp.SHR, immediate=True) + steps_of_alu(AluOp.ADD, immediate=False))
"""Steps of the ALU for each vector of 32 bits that comes into other lanes through memory."""

MOST = 64
"""Ways of all stages so far that are kept, of those of which none has both fewer steps and less to load."""

Class: TypeAlias = int
Chosen: TypeAlias = dict[StageView, Implementation]


class _Ways(NamedTuple):
    """Ways of stages: those of two others together, and ``own``, which stand for what these say of the same stages."""

    steps: int
    loads: int
    own: Chosen
    first: "_Ways | None" = None
    second: "_Ways | None" = None


def _parts(ways: _Ways) -> Iterator[Chosen]:
    """The ways of stages; of two of one stage the one that counts comes later."""
    waiting = [ways]
    found: list[Chosen] = []
    while waiting:
        each = waiting.pop()
        found.append(each.own)
        waiting += [part for part in (each.second, each.first) if part is not None]
    return reversed(found)


def _least(ways: list[_Ways]) -> list[_Ways]:
    """Those of which none other has both fewer steps and less to load; of many, some throughout."""
    found: list[_Ways] = []
    for each in sorted(ways, key=lambda way: (way.steps, way.loads)):
        if not found or each.loads < found[-1].loads:
            found.append(each)
    if len(found) > MOST:
        found = [found[n * (len(found) - 1) // (MOST - 1)] for n in range(MOST)]
    return found


class SharedLanes:
    """Groups of stages, and which of their axes are one.

    ``ways`` are those of each stage; ``loading`` says how many cycles the loads of one take.
    """

    def __init__(
        self,
        schedule: ScheduleView,
        ways: Mapping[StageView, StageImplementations],
        loading: Callable[[StageView, Implementation], int],
    ) -> None:
        self.ways, self.loading = ways, loading
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
                maker = schedule.maker(read.tensor)
                if maker is not None and maker is not stage and read.tensor.dtype == "int32":
                    self._tie(stage, maker, read)

    def choices(self) -> Iterator[Chosen]:
        """Ways of all stages, of which others have more steps or more to load."""
        groups = {id(group): group for group in self.group.values()}.values()
        for found in self._together(map(self._of_group, groups)):
            yield {stage: way for part in _parts(found) for stage, way in part.items()}

    def _of_group(self, group: Sequence[StageView]) -> list[_Ways]:
        choices = [each for places in self._places(group) for each in self._at(places)]
        if len(group) > 1:
            choices += self._moved(group)
        assert choices, f"no way to compute {group[0].name}"
        return _least(choices)

    def _places(self, group: Sequence[StageView]) -> Iterator[dict[StageView, BoundPlace]]:
        """The lanes that a group may have, each as those of its stages."""
        found = dict.fromkeys(
            (self._class_of(stage, place.row), self._class_of(stage, place.column))
            for stage in group
            for place in self.ways[stage].places
        )
        for classes in found:
            yield {stage: BoundPlace(*(self._axis_of(stage, each) for each in classes)) for stage in group}

    def _moved(self, group: Sequence[StageView]) -> list[_Ways]:
        """Each stage in whatever lanes, and one tensor between them moved, the smallest."""
        fewest = {s: min(map(self.ways[s].vectors, self.ways[s].places)) for s in group if s in self.read_wide}
        moved = min(fewest, key=lambda stage: fewest[stage])
        apart: list[list[_Ways]] = []
        for stage in group:
            alone = [each for place in self.ways[stage].places for each in self._of_stage(stage, place)]
            assert alone, f"no way to compute {stage.name}"
            apart.append(_least(alone))
        steps = MOVED * fewest[moved]
        return [
            _Ways(each.steps + steps, each.loads, {moved: replace(way, alu=way.alu + steps)}, each)
            for each in self._together(apart)
            for way in [next(part[moved] for part in _parts(each) if moved in part)]
        ]

    def _at(self, places: Mapping[StageView, BoundPlace]) -> list[_Ways]:
        """The ways of stages in these lanes; none if one of them cannot be computed so."""
        return self._together(self._of_stage(stage, place) for stage, place in places.items())

    def _of_stage(self, stage: StageView, place: BoundPlace) -> list[_Ways]:
        return [_Ways(way.steps, self.loading(stage, way), {stage: way}) for way in self.ways[stage].at(place)]

    def _together(self, fronts: Iterable[list[_Ways]]) -> list[_Ways]:
        """The ways of several stages or groups, each in one of its own."""
        found = [_Ways(0, 0, {})]
        for front in fronts:
            found = _least([_Ways(a.steps + b.steps, a.loads + b.loads, {}, a, b) for a in found for b in front])
        return found

    def _class_of(self, stage: StageView, axis: Axis | None) -> Class | None:
        return None if axis is None else self.of_axis[stage, axis]

    def _axis_of(self, stage: StageView, found: Class | None) -> Axis | None:
        return None if found is None else self.members[found].get(stage)

    def _tie(self, stage: StageView, maker: StageView, read: ReadAccess) -> None:
        """Make one group of two stages, if a read goes over the maker's axes one for one."""
        pairs = _one_for_one(stage, maker, read)
        if pairs is None:
            return
        classes = [(self.of_axis[stage, own], self.of_axis[maker, made]) for own, made in pairs]
        if any(a != b and self.members[a].keys() & self.members[b].keys() for a, b in classes):
            return  # two axes of a stage would be one
        for a, b in classes:
            if a != b:
                self.members[a].update(self.members[b])
                self.of_axis.update(dict.fromkeys(self.members[b].items(), a))
        self.read_wide.add(maker)
        group, other = self.group[stage], self.group[maker]
        if group is not other:
            whole = sorted([*group, *other], key=list(self.group).index)
            self.group.update(dict.fromkeys(whole, whole))


def _one_for_one(stage: StageView, maker: StageView, read: ReadAccess) -> list[tuple[Axis, Axis]] | None:
    """Each axis of a stage that has a length with the one of the maker that it reads; None if it is no such read."""
    pairs: list[tuple[Axis, Axis]] = []
    for index, made in zip(read.indices, maker.state.computation.axes, strict=True):
        affine = as_affine(index)
        steps = {} if affine is None else affine.coefficients
        if tuple(steps.values()) == (1,):
            pairs.append((next(iter(steps)), made))
        elif made.extent > 1:
            return None
    own = [axis for axis, _ in pairs]
    axes = stage.state.computation.axes
    if len(set(own)) < len(own) or not {axis for axis in axes if axis.extent > 1} <= set(own) <= set(axes):
        return None
    return pairs


__all__ = ["SharedLanes"]
