"""Commands of a schedule as data: carried out on a schedule, and kept as JSON.

A step names stages by the names of their tensors, and loops by how they came about: an axis of a stage by its number,
or what an earlier step has made of one. Carrying steps out calls the commands themselves, which check all of it again.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, TypeAlias

from lathe.configs import LatheError
from lathe.configs.errors import shown
from lathe.scheduler import Schedule
from lathe.scheduler.schedule import Stage
from lathe.scheduler.schedule_ir.loops import LoopAxis

Json: TypeAlias = Mapping[str, Any]


class StepError(LatheError):
    """Data that is no step, or none for the schedule at hand."""


@dataclass(frozen=True)
class Loop:
    """A loop of a stage: axis ``number`` of a ``kind`` (data or reduce), and which part of it, once that is split."""

    kind: str
    number: int
    part: str = ""  # "outer", "inner", or "" for all of it

    def to_json(self) -> list[object]:
        """As plain values."""
        return [self.kind, self.number, self.part]


@dataclass(frozen=True)
class Step:
    """One command: its name, the stage or tensor it is about, and what it says.

    ``cache_write`` (scope, makes), ``cache_read`` (scope, readers, gathered, makes), ``set_scope`` (scope), ``split``
    (loop, factor), ``reorder`` (loops), ``compute_at`` (host, loop), ``tile_for`` (about a memory: factor).
    ``makes`` is what later steps call a copy.
    """

    command: str
    about: str
    scope: str = ""
    readers: tuple[str, ...] = ()
    loops: tuple[Loop, ...] = ()
    factor: int = 0
    host: str = ""
    makes: str = ""
    gathered: tuple[int, ...] = ()

    def to_json(self) -> Json:
        """As plain values; what is left out is as it is by default."""
        values = {
            "command": self.command,
            "about": self.about,
            "scope": self.scope,
            "readers": list(self.readers),
            "loops": [loop.to_json() for loop in self.loops],
            "factor": self.factor,
            "host": self.host,
            "makes": self.makes,
            "gathered": list(self.gathered),
        }
        return {name: value for name, value in values.items() if value or name in ("command", "about")}


def step_from_json(data: object) -> Step:
    """The step that ``to_json`` has written. Raises StepError for anything else."""
    if not isinstance(data, dict):
        raise StepError(f"A step of a schedule must be a command and what it is about, not {shown(data)}.")
    try:
        loops = tuple(Loop(_text(kind), _number(number), _text(part)) for kind, number, part in data.get("loops", ()))
        step = Step(
            _text(data["command"]),
            _text(data["about"]),
            _text(data.get("scope", "")),
            tuple(map(_text, data.get("readers", ()))),
            loops,
            _number(data.get("factor", 0)),
            _text(data.get("host", "")),
            _text(data.get("makes", "")),
            tuple(map(_number, data.get("gathered", ()))),
        )
    except (KeyError, TypeError, ValueError):
        raise StepError(f"A step of a schedule must be a command and what it is about, not {shown(data)}.") from None
    if step.command not in _RUN:
        raise StepError(f"Command of a step must be one of {', '.join(sorted(_RUN))}, not {step.command!r}.")
    if step.command in ("split", "compute_at") and len(step.loops) != 1:
        raise StepError(f"Step {step.command!r} must be about one loop, not {len(step.loops)}.")
    if step.command == "cache_read" and not step.readers:
        raise StepError("Step 'cache_read' must have readers, not none.")
    return step


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError("no text")
    return value


def _number(value: object) -> int:
    """A whole number as it is: one that is made of 2.5, or of the infinity that JSON knows, would be another one."""
    if type(value) is not int:
        raise TypeError("no whole number")
    return value


class TraceReplayer:
    """Carries out steps on a schedule, which it changes. Raises StepError, and what commands raise."""

    def __init__(self, schedule: Schedule) -> None:
        self.schedule = schedule
        self.made: dict[str, Stage] = {}
        self.parts: dict[tuple[str, Loop], LoopAxis] = {}

    def run(self, steps: Sequence[Step]) -> None:
        """All of them, in order."""
        for step in steps:
            _RUN[step.command](self, step)

    def stage(self, name: str) -> Stage:
        """The stage of a tensor's name, or what a step has made."""
        if name in self.made:
            return self.made[name]
        for stage in self.schedule.stages:
            if stage.name == name:
                return stage
        raise StepError(f"Stage of a step must be one of the schedule's, not {name!r}.")

    def loop(self, stage: str, loop: Loop) -> LoopAxis:
        """A loop as it stands now."""
        if loop.part:
            found = self.parts.get((stage, loop))
        else:
            handle = self.stage(stage)
            axes = handle.axis if loop.kind == "data" else handle.reduce_axis
            found = axes[loop.number] if 0 <= loop.number < len(axes) else None
        if found is None:
            raise StepError(f"Loop of a step must be one that stage {stage!r} has, not {loop.to_json()}.")
        return found

    def cache_write(self, step: Step) -> None:
        """A copy in a scratchpad that is computed, and stored from there."""
        copy = self.schedule.cache_write(self.stage(step.about).tensor, step.scope)
        self.made[step.makes] = self.schedule[copy]

    def cache_read(self, step: Step) -> None:
        """A copy in a scratchpad for some readers."""
        readers = [self.stage(name) for name in step.readers]
        reads = (read.tensor for reader in readers for read in reader.state.computation.reads)
        tensor = next((each for each in reads if each.name == step.about), None)
        if tensor is None:
            raise StepError(f"Tensor of a step must be one that {', '.join(step.readers)} reads, not {step.about!r}.")
        copy = self.schedule.cache_read(tensor, step.scope, readers, gathered=step.gathered)
        self.made[step.makes] = self.schedule[copy]

    def set_scope(self, step: Step) -> None:
        """A stage in a scratchpad."""
        self.stage(step.about).set_scope(step.scope)

    def split(self, step: Step) -> None:
        """A loop in two."""
        (loop,) = step.loops
        outer, inner = self.stage(step.about).split(self.loop(step.about, loop), step.factor)
        self.parts[step.about, Loop(loop.kind, loop.number, "outer")] = outer
        self.parts[step.about, Loop(loop.kind, loop.number, "inner")] = inner

    def reorder(self, step: Step) -> None:
        """Loops in an order."""
        self.stage(step.about).reorder(*(self.loop(step.about, loop) for loop in step.loops))

    def compute_at(self, step: Step) -> None:
        """A stage in a loop of another."""
        (loop,) = step.loops
        self.stage(step.about).compute_at(self.stage(step.host), self.loop(step.host, loop))

    def tile_for(self, step: Step) -> None:
        """What is left open, tiled as for a machine with less."""
        self.schedule.tile_for(scratchpads=step.factor, memory=step.about)


_RUN = {
    "tile_for": TraceReplayer.tile_for,
    "cache_write": TraceReplayer.cache_write,
    "cache_read": TraceReplayer.cache_read,
    "set_scope": TraceReplayer.set_scope,
    "split": TraceReplayer.split,
    "reorder": TraceReplayer.reorder,
    "compute_at": TraceReplayer.compute_at,
}
