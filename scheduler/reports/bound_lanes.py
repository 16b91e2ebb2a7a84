"""Stages that share the lanes of accumulators: sums of 32 bits are read in the lanes in which they were made.

What is stored has 8 bits. So a product, what is computed of its sums by element, and what is added to them have the
same axes in rows and columns, up to the stage that narrows them; or such a tensor is stored in four planes of bytes,
each after the first shifted down, and put together again in other lanes, each shifted up and added.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TypeAlias

from lathe.frontend import as_affine
from lathe.frontend.nodes import Axis, ReadAccess
from lathe.isa import AluOp
from lathe.scheduler.reports.bound_work import BoundPlace, StageWays, Way
from lathe.scheduler.state.schedule import ScheduleView, StageView
from lathe.scheduler.target.steps import steps_of_alu

MOVED = 3 * (2 * steps_of_alu(AluOp.SHR, immediate=True) + steps_of_alu(AluOp.ADD, immediate=False))
"""Steps of the ALU for each vector of 32 bits that comes into other lanes through memory."""

Class: TypeAlias = int
Chosen: TypeAlias = dict[StageView, Way]


class SharedLanes:
    """Groups of stages, and which of their axes are one.

    ``ways`` are those of each stage; ``loading`` says how many cycles the loads of one take.
    """

    def __init__(
        self,
        schedule: ScheduleView,
        ways: Mapping[StageView, StageWays],
        loading: Callable[[StageView, Way], int],
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

    def best(self) -> Chosen:
        """The best way of each stage. Where loads take longer than steps, those with the least to load."""
        found: Chosen = {}
        for group in {id(group): group for group in self.group.values()}.values():
            choices = [each for places in self._places(group) if (each := self._at(places)) is not None]
            if len(group) > 1:
                choices.append(self._moved(group))
            assert choices, f"no way to compute {group[0].name}"
            found |= self._quickest(choices)
        return found

    def _places(self, group: Sequence[StageView]) -> Iterator[dict[StageView, BoundPlace]]:
        """The lanes that a group may have, each as those of its stages."""
        found = dict.fromkeys(
            (self._class_of(stage, place.row), self._class_of(stage, place.column))
            for stage in group
            for place in self.ways[stage].places
        )
        for classes in found:
            yield {stage: BoundPlace(*(self._axis_of(stage, each) for each in classes)) for stage in group}

    def _moved(self, group: Sequence[StageView]) -> Chosen:
        """Each stage in whatever lanes, and one tensor between them moved, the smallest."""
        apart: Chosen = {}
        for stage in group:
            alone = [each for place in self.ways[stage].places if (each := self._at({stage: place})) is not None]
            assert alone, f"no way to compute {stage.name}"
            apart |= self._quickest(alone)
        fewest = {s: min(map(self.ways[s].vectors, self.ways[s].places)) for s in group if s in self.read_wide}
        moved = min(fewest, key=lambda stage: fewest[stage])
        return apart | {moved: replace(apart[moved], alu=apart[moved].alu + MOVED * fewest[moved])}

    def _at(self, places: Mapping[StageView, BoundPlace]) -> Chosen | None:
        """The best ways of stages in these lanes; None if one of them cannot be computed so."""
        found: Chosen = {}
        for stage, place in places.items():
            choices = [{stage: way} for way in self.ways[stage].at(place)]
            if not choices:
                return None
            found |= self._quickest(choices)
        return found

    def _quickest(self, choices: Sequence[Chosen]) -> Chosen:
        return min(choices, key=self._cost)

    def _cost(self, chosen: Chosen) -> tuple[int, int]:
        """Cycles, of the steps or of the loads; then steps."""
        steps = sum(way.steps for way in chosen.values())
        return max(steps, sum(self.loading(stage, way) for stage, way in chosen.items())), steps

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
