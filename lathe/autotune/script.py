"""Prints an autotuned schedule as a script of public primitives: the user's own, then the autotuner's.

The arguments of a primitive are named as in the schedule before it: a loop by its position among its stage's loops, a
stage or tensor by its name. Other arguments (a Python function, a map, a buffer) cannot be printed; the script is then
a function of the user's schedule, and contains the autotuner's primitives only.
"""

from collections.abc import Iterator, Mapping, Sequence
from keyword import iskeyword

from lathe.autotune.primitive_trace import Loop, Step
from lathe.configs.integers import integer
from lathe.frontend import Axis, Tensor
from lathe.scheduler.schedule_ir.edit import EditedStage
from lathe.scheduler.schedule_ir.loops import LoopAxis
from lathe.scheduler.schedule_ir.schedule_state import ScheduleState
from lathe.scheduler.schedule_ir.stage import StageId
from lathe.scheduler.schedule_trace import TraceEntry

ALL_STAGES = "stages = {each.name: each for each in s.stages}"
ALL_TENSORS = "tensors = {read.tensor.name: read.tensor for each in s.stages for read in each.op.reads}"


class _UnprintableError(Exception):
    """A primitive with an argument that cannot be printed."""


def script_of(steps: Sequence[Step], begun: Sequence[TraceEntry] | None, heading: str) -> str:
    """A Python function, as text, that creates a schedule from a program's outputs.

    ``begun``: the user's primitives, which come before the steps; None if unknown. If they cannot be printed, the
    function takes the user's schedule instead of the outputs.
    """
    printer = Printer()
    try:
        if begun is None:
            raise _UnprintableError
        before = list(_user_lines(begun, printer))
    except _UnprintableError:
        lines = [
            f"# {heading}",
            "# The cycles include the primitives of the user's schedule, which cannot be printed here.",
            "",
            "",
            "def schedule(s):",
            '    """Complete a schedule to which the same primitives were applied as to the one autotuned."""',
        ]
        printer = Printer()
    else:
        lines = [f"# {heading}", "import lathe as lt", "", "", "def schedule(*outputs):"]
        lines.append("    s = lt.create_schedule(outputs)")
        if before:
            lines += ["    # Primitives of the user's schedule:", *(f"    {line}" for line in before)]
            lines += ["    # Primitives of the autotuner:"] if steps else []
    copies = {step.makes for step in steps} - {""}
    named = [step.about for step in steps if step.command not in ("cache_read", "tile_for")]
    existing = dict.fromkeys(name for name in named if name not in copies)
    if existing:
        lines.append(f"    {ALL_STAGES}")
        lines += [f"    {printer.stage(name)} = stages[{name!r}]" for name in existing]
    if any(step.command == "cache_read" for step in steps):
        lines.append(f"    {ALL_TENSORS}")
    lines += [f"    {printer.line(step)}" for step in steps]
    return "\n".join([*lines, "    return s", ""])


class Printer:
    """Names the variables of a script, and prints steps as calls."""

    def __init__(self) -> None:
        self.names: dict[object, str] = {}

    def variable(self, thing: object, preferred: str) -> str:
        """The variable of a thing; created, and similar to ``preferred``, on first use."""
        if thing not in self.names:
            name = "".join(letter if letter.isalnum() and letter.isascii() else "_" for letter in preferred)
            name = f"_{name}" if not name or name[0].isdigit() or iskeyword(name) else name
            while name in self.names.values() or name in _RESERVED:
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
        loops = [self.loop(step.enclosing or about, loop) for loop in step.loops]
        match step.command:
            case "cache_write":
                copy = f"s.cache_write({self.stage(about)}.tensor, {step.scope!r})"
                return f"{self.stage(step.makes)} = s[{copy}]"
            case "cache_read":
                readers = ", ".join(map(self.stage, step.readers))
                gathered = f", gathered={list(step.gathered)}" if step.gathered else ""
                copy = f"s.cache_read(tensors[{about!r}], {step.scope!r}, [{readers}]{gathered})"
                return f"{self.stage(step.makes)} = s[{copy}]"
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
        return f"{self.stage(about)}.compute_at({self.stage(step.enclosing)}, {loops[0]})"


def _user_lines(entries: Sequence[TraceEntry], printer: "Printer") -> Iterator[str]:
    """The user's primitives as lines of a script. Raises _UnprintableError."""
    names = _Names(entries[0].before, printer) if entries else None
    for entry in entries:
        assert names is not None, "there must be a first entry"
        names.before = entry.before
        owner = "s" if entry.owner is None else names.stage(entry.owner)
        arguments = [names.text(each, entry.owner) for each in entry.arguments]
        arguments += [f"{key}={names.text(each, entry.owner)}" for key, each in entry.keywords.items()]
        yield from names.definitions()
        yield f"{owner}.{entry.name}({', '.join(arguments)})"


class _Names:
    """Prints the arguments of primitives as expressions; ``before``: the schedule before the next primitive."""

    def __init__(self, first: ScheduleState, printer: "Printer") -> None:
        self.first = first
        self.before = first
        self.printer = printer
        self.lines: list[str] = []
        self.known: Mapping[StageId, object] | None = None
        """The stages when the script last assigned ``stages``."""
        self.variables: dict[str, StageId] = {}
        self.tensors: dict[str, Tensor] = {}

    def definitions(self) -> list[str]:
        """The assignments that the next primitive requires and that have not been printed yet."""
        lines, self.lines = self.lines, []
        return lines

    def text(self, value: object, owner: EditedStage | None) -> str:
        """An expression for the value. Raises _UnprintableError if there is none."""
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
        """A loop by its position in a stage, preferably the primitive's own stage."""
        keys = [] if owner is None else [owner.id]
        keys += [key for key in self.before.stages if key not in keys]
        matches: dict[LoopAxis, tuple[StageId, int]] = {}
        for key in keys:
            leaves = self.before.stages[key].leaves if key in self.before.stages else ()
            for position, leaf in enumerate(leaves):
                if leaf is loop or leaf.source is loop:
                    matches.setdefault(leaf, (key, position))
        if len(matches) != 1:
            raise _UnprintableError
        ((key, position),) = matches.values()
        return f"{self._stage(key)}.leaf_axis[{position}]"

    def tensor(self, tensor: Tensor) -> str:
        """A tensor as an output, as what a stage computes, or as what some stage reads."""
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


_RESERVED = ("lt", "s", "stages", "tensors", "outputs", "schedule", "each", "read")
