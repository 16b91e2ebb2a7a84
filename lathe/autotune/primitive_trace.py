"""Schedule primitives as data: replayed on a schedule, and serialised as JSON.

A step names a stage by its tensor, and a loop by its origin: an axis of a stage by its number, or the outer or inner
loop of an earlier split. Replaying a step calls the primitive itself, which checks its arguments again.
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
    """Data that is no valid step, or a step that names a stage or loop that the schedule does not have."""


@dataclass(frozen=True)
class Loop:
    """A loop of a stage: axis ``number`` of a ``kind`` (data or reduce), or the outer or inner loop of its split."""

    kind: str
    number: int
    part: str = ""  # "outer", "inner", or "" for an axis that is not split

    def to_json(self) -> list[object]:
        """As plain values."""
        return [self.kind, self.number, self.part]


@dataclass(frozen=True)
class Step:
    """One application of a primitive: its name, the stage or tensor ``about`` that it applies to, and its arguments.

    ``cache_write`` (scope, makes), ``cache_read`` (scope, readers, gathered, makes), ``set_scope`` (scope), ``split``
    (loop, factor), ``reorder`` (loops), ``compute_at`` (host: the enclosing stage, loop), ``tile_for`` (about: a
    memory; factor). ``makes``: the name of the copy in later steps.
    """

    command: str
    about: str
    scope: str = ""
    readers: tuple[str, ...] = ()
    loops: tuple[Loop, ...] = ()
    factor: int = 0
    enclosing: str = ""
    makes: str = ""
    gathered: tuple[int, ...] = ()

    def to_json(self) -> Json:
        """As plain values, without those that have their defaults."""
        values = {
            "command": self.command,
            "about": self.about,
            "scope": self.scope,
            "readers": list(self.readers),
            "loops": [loop.to_json() for loop in self.loops],
            "factor": self.factor,
            "host": self.enclosing,
            "makes": self.makes,
            "gathered": list(self.gathered),
        }
        return {name: value for name, value in values.items() if value or name in ("command", "about")}


def step_from_json(data: object) -> Step:
    """The step that ``to_json`` has written. Raises StepError for anything else."""
    if not isinstance(data, dict):
        raise StepError(f"A step must be a dictionary of 'command', 'about' and arguments, not {shown(data)}.")
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
        raise StepError(
            f"A step must be a dictionary of 'command', 'about' and arguments, not {shown(data)}."
        ) from None
    if step.command not in _RUN:
        raise StepError(f"Command of a step must be one of {', '.join(sorted(_RUN))}, not {step.command!r}.")
    if step.command in ("split", "compute_at") and len(step.loops) != 1:
        raise StepError(f"Step {step.command!r} must name one loop, not {len(step.loops)}.")
    if step.command == "cache_read" and not step.readers:
        raise StepError("Step 'cache_read' must name at least one consumer in 'readers', not none.")
    return step


def _text(value: object) -> str:
    if not isinstance(value, str):
        raise TypeError("no text")
    return value


def _number(value: object) -> int:
    """An integer, unchanged. Raises TypeError for other numbers, such as 2.5 or JSON's Infinity, rather than round."""
    if type(value) is not int:
        raise TypeError("no whole number")
    return value


class TraceReplayer:
    """Applies steps to a schedule, in place. Raises StepError, and what the primitives raise."""

    def __init__(self, schedule: Schedule) -> None:
        self.schedule = schedule
        self.copies: dict[str, Stage] = {}
        self.split_loops: dict[tuple[str, Loop], LoopAxis] = {}

    def run(self, steps: Sequence[Step]) -> None:
        """Apply steps in order."""
        for step in steps:
            _RUN[step.command](self, step)

    def stage(self, name: str) -> Stage:
        """The stage of a tensor's name, or the copy that an earlier step has made under this name."""
        if name in self.copies:
            return self.copies[name]
        for stage in self.schedule.stages:
            if stage.name == name:
                return stage
        raise StepError(f"Stage of a step must be one of the schedule's, not {name!r}.")

    def loop(self, stage: str, loop: Loop) -> LoopAxis:
        """The schedule's loop that a step names."""
        if loop.part:
            axis = self.split_loops.get((stage, loop))
        else:
            handle = self.stage(stage)
            axes = handle.axis if loop.kind == "data" else handle.reduce_axis
            axis = axes[loop.number] if 0 <= loop.number < len(axes) else None
        if axis is None:
            raise StepError(f"Loop of a step must be one of stage {stage!r}, not {loop.to_json()}.")
        return axis

    def cache_write(self, step: Step) -> None:
        """Compute a tensor in a scratchpad, and store it from there."""
        copy = self.schedule.cache_write(self.stage(step.about).tensor, step.scope)
        self.copies[step.makes] = self.schedule[copy]

    def cache_read(self, step: Step) -> None:
        """Copy a tensor to a scratchpad for some consumers."""
        consumers = [self.stage(name) for name in step.readers]
        reads = (read.tensor for consumer in consumers for read in consumer.state.computation.reads)
        tensor = next((each for each in reads if each.name == step.about), None)
        if tensor is None:
            raise StepError(f"Tensor of a step must be one that {', '.join(step.readers)} reads, not {step.about!r}.")
        copy = self.schedule.cache_read(tensor, step.scope, consumers, gathered=step.gathered)
        self.copies[step.makes] = self.schedule[copy]

    def set_scope(self, step: Step) -> None:
        """Set the memory scope of a stage."""
        self.stage(step.about).set_scope(step.scope)

    def split(self, step: Step) -> None:
        """Split a loop."""
        (loop,) = step.loops
        outer, inner = self.stage(step.about).split(self.loop(step.about, loop), step.factor)
        self.split_loops[step.about, Loop(loop.kind, loop.number, "outer")] = outer
        self.split_loops[step.about, Loop(loop.kind, loop.number, "inner")] = inner

    def reorder(self, step: Step) -> None:
        """Reorder loops."""
        self.stage(step.about).reorder(*(self.loop(step.about, loop) for loop in step.loops))

    def compute_at(self, step: Step) -> None:
        """Compute a stage at a loop of another."""
        (loop,) = step.loops
        self.stage(step.about).compute_at(self.stage(step.enclosing), self.loop(step.enclosing, loop))

    def tile_for(self, step: Step) -> None:
        """Choose the tiles that are still open for a derated machine."""
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
