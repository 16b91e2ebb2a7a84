"""A schedule that has been found, as a script of public commands: those that it was begun with, and those found.

What a command was given is named by the schedule before it: a loop by its place among those of a stage, a stage and a
tensor by their names. What cannot be named so (a Python function, a map, a buffer) has no text that makes it again;
then the script goes on from the begun schedule, which it takes as its argument.
"""

from collections.abc import Iterator, Mapping, Sequence
from keyword import iskeyword

from lathe.autotune.primitive_trace import Loop, Step
from lathe.configs.integers import integer
from lathe.frontend import Axis, Tensor
from lathe.scheduler.schedule_ir.edit import EditedStage
from lathe.scheduler.schedule_ir.loops import LoopAxis
from lathe.scheduler.schedule_ir.schedule import ScheduleState
from lathe.scheduler.schedule_ir.stage import StageId
from lathe.scheduler.schedule_trace import TraceEntry

ALL_STAGES = "stages = {each.name: each for each in s.stages}"
ALL_TENSORS = "tensors = {read.tensor.name: read.tensor for each in s.stages for read in each.op.reads}"


class _UnprintableError(Exception):
    """A command that no text gives again."""


def script_of(steps: Sequence[Step], begun: Sequence[TraceEntry] | None, heading: str) -> str:
    """A Python function that makes a schedule of a program's outputs, to be edited and run.

    ``begun``: the commands before the steps; None where they are not known. Where they cannot be printed, the function
    takes the schedule that they have made.
    """
    printer = Printer()
    try:
        if begun is None:
            raise _UnprintableError
        before = list(_begun_lines(begun, printer))
    except _UnprintableError:
        lines = [
            f"# {heading}",
            "# These are the cycles with the schedule that was begun by hand, whose commands are not printed here.",
            "",
            "",
            "def schedule(s):",
            '    """Go on from a schedule that is begun by the same commands as the one that this was found for."""',
        ]
        printer = Printer()
    else:
        lines = [f"# {heading}", "import lathe as lt", "", "", "def schedule(*outputs):"]
        lines.append("    s = lt.create_schedule(outputs)")
        if before:
            lines += ["    # As it was begun by hand:", *(f"    {line}" for line in before)]
            lines += ["    # As it was found:"] if steps else []
    made = {step.makes for step in steps} - {""}
    named = [step.about for step in steps if step.command not in ("cache_read", "tile_for")]
    given = dict.fromkeys(name for name in named if name not in made)
    if given:
        lines.append(f"    {ALL_STAGES}")
        lines += [f"    {printer.stage(name)} = stages[{name!r}]" for name in given]
    if any(step.command == "cache_read" for step in steps):
        lines.append(f"    {ALL_TENSORS}")
    lines += [f"    {printer.line(step)}" for step in steps]
    return "\n".join([*lines, "    return s", ""])


class Printer:
    """Names variables of a script."""

    def __init__(self) -> None:
        self.names: dict[object, str] = {}

    def variable(self, thing: object, wanted: str) -> str:
        """The variable of a thing, a new one the first time."""
        if thing not in self.names:
            name = "".join(letter if letter.isalnum() and letter.isascii() else "_" for letter in wanted)
            name = f"_{name}" if not name or name[0].isdigit() or iskeyword(name) else name
            while name in self.names.values() or name in _TAKEN:
                name += "_"
            self.names[thing] = name
        return self.names[thing]

    def stage(self, name: str) -> str:
        return self.variable(name, name)

    def loop(self, stage: str, loop: Loop) -> str:
        kind = "axis" if loop.kind == "data" else "reduce_axis"
        if not loop.part:
            return f"{self.stage(stage)}.{kind}[{loop.number}]"
        return self.variable((stage, loop), f"{stage}_{kind}{loop.number}_{loop.part}")

    def line(self, step: Step) -> str:
        about = step.about
        loops = [self.loop(step.host or about, loop) for loop in step.loops]
        match step.command:
            case "cache_write":
                made = f"s.cache_write({self.stage(about)}.tensor, {step.scope!r})"
                return f"{self.stage(step.makes)} = s[{made}]"
            case "cache_read":
                readers = ", ".join(map(self.stage, step.readers))
                gathered = f", gathered={list(step.gathered)}" if step.gathered else ""
                made = f"s.cache_read(tensors[{about!r}], {step.scope!r}, [{readers}]{gathered})"
                return f"{self.stage(step.makes)} = s[{made}]"
            case "tile_for":
                return f"s.tile_for(scratchpads={step.factor}, memory={about!r})"
            case "set_scope":
                return f"{self.stage(about)}.set_scope({step.scope!r})"
            case "split":
                (loop,) = step.loops
                parts = [self.loop(about, Loop(loop.kind, loop.number, part)) for part in ("outer", "inner")]
                return f"{', '.join(parts)} = {self.stage(about)}.split({loops[0]}, {step.factor})"
            case "reorder":
                return f"{self.stage(about)}.reorder({', '.join(loops)})"
        return f"{self.stage(about)}.compute_at({self.stage(step.host)}, {loops[0]})"


def _begun_lines(commands: Sequence[TraceEntry], printer: "Printer") -> Iterator[str]:
    """The lines of commands. Raises _UnprintableError where one has none."""
    names = _Names(commands[0].before, printer) if commands else None
    for command in commands:
        assert names is not None, "there is a first command"
        names.before = command.before
        owner = "s" if command.owner is None else names.stage(command.owner)
        arguments = [names.text(each, command.owner) for each in command.arguments]
        arguments += [f"{key}={names.text(each, command.owner)}" for key, each in command.keywords.items()]
        yield from names.needed()
        yield f"{owner}.{command.name}({', '.join(arguments)})"


class _Names:
    """What a script calls the things that commands are given; ``before``: the schedule as the next command finds it."""

    def __init__(self, first: ScheduleState, printer: "Printer") -> None:
        self.first = first
        self.before = first
        self.printer = printer
        self.lines: list[str] = []
        self.known: Mapping[StageId, object] | None = None
        """The stages as they were when the script looked last."""
        self.variables: dict[str, StageId] = {}
        self.tensors: dict[str, Tensor] = {}

    def needed(self) -> list[str]:
        """The lines that give values to names, before the command that uses them first."""
        lines, self.lines = self.lines, []
        return lines

    def text(self, value: object, owner: EditedStage | None) -> str:
        """What gives the value. Raises _UnprintableError if nothing does."""
        if value is None or isinstance(value, str | bool):
            return repr(value)
        if isinstance(value, list | tuple):
            parts = [self.text(each, owner) for each in value]
            return f"[{', '.join(parts)}]" if isinstance(value, list) else f"({''.join(f'{each}, ' for each in parts)})"
        if isinstance(value, LoopAxis | Axis):
            return self.loop(value, owner)
        if isinstance(value, EditedStage):
            return self.stage(value)
        if isinstance(value, Tensor):
            return self.tensor(value)
        number = integer(value)
        if number is None:
            raise _UnprintableError
        return str(number)

    def stage(self, stage: EditedStage) -> str:
        """The variable of a stage."""
        return self._stage(stage.id)

    def _stage(self, key: StageId) -> str:
        names = [state.computation.name for state in self.before.stages.values()]
        if key not in self.before.stages:
            raise _UnprintableError
        name = self.before.stages[key].computation.name
        if names.count(name) > 1:
            raise _UnprintableError
        if self.variables.get(name) is not key:
            if self.known is not self.before.stages:
                self.lines.append(ALL_STAGES)
                self.known = self.before.stages
            self.lines.append(f"{self.printer.stage(name)} = stages[{name!r}]")
            self.variables[name] = key
        return self.printer.stage(name)

    def loop(self, loop: LoopAxis | Axis, owner: EditedStage | None) -> str:
        """A loop by its place in a stage, that of the command before others."""
        keys = [] if owner is None else [owner.id]
        keys += [key for key in self.before.stages if key not in keys]
        found: dict[LoopAxis, tuple[StageId, int]] = {}
        for key in keys:
            leaves = self.before.stages[key].leaves if key in self.before.stages else ()
            for place, leaf in enumerate(leaves):
                if leaf is loop or leaf.source is loop:
                    found.setdefault(leaf, (key, place))
        if len(found) != 1:
            raise _UnprintableError
        ((key, place),) = found.values()
        return f"{self._stage(key)}.leaf_axis[{place}]"

    def tensor(self, tensor: Tensor) -> str:
        """An output, what a stage computes now, or what the program reads."""
        outputs = self.before.program
        if tensor in outputs:
            return f"outputs[{outputs.index(tensor)}]"
        for key, state in self.before.stages.items():
            if state.tensor is tensor:
                return f"{self._stage(key)}.tensor"
        read = [read.tensor for state in self.before.stages.values() for read in state.computation.reads]
        if tensor not in read or any(each.name == tensor.name and each is not tensor for each in read):
            raise _UnprintableError
        if self.tensors.get(tensor.name) is not tensor:
            self.lines.append(ALL_TENSORS)
            self.tensors = {each.name: each for each in read}
        return f"tensors[{tensor.name!r}]"


_TAKEN = ("lt", "s", "stages", "tensors", "outputs", "schedule", "each", "read")
