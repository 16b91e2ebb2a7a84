"""Random primitives on loops, compute locations and order of stages; any of them may be refused."""

from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass

from random_programs import Choice, programs
from seeds import note
from shares import COMMAND, counted

from lathe.configs import LatheError
from lathe.frontend import Tensor
from lathe.scheduler import Schedule, ScheduleError, Stage, create_schedule
from lathe.scheduler.schedule_ir.memories import ACC, DRAM, OPERANDS

LOOPS = (
    "split",
    "split",
    "tile",
    "reorder",
    "fuse",
    "unroll",
    "compute_at",
    "compute_at",
    "compute_root",
    "reuse_at",
    "reuse_at",
    "emit_insn",
    "set_scope",
    "cache_write",
    "cache_read",
)
"""Loops, compute locations and scopes of stages."""

MOVES = ("split", "tile", "reorder", "compute_at", "compute_at", "after", "after", "fuse")
"""Loops and compute locations only: what decides which iterations may be reordered."""


@dataclass
class Command:
    """A schedule primitive, to be called on a schedule or on a copy with the same stages."""

    text: str
    run: Callable[[Schedule], object]

    def attempt(self, schedule: Schedule) -> list[LatheError]:
        """Call it, recorded and counted; the list contains the error, if it is refused."""
        note(self.text)
        with counted(COMMAND) as refusal:
            self.run(schedule)
        return refusal


def commands(choice: Choice, schedule: Schedule, kinds: tuple[str, ...]) -> Command:
    """A primitive that is possible on the current schedule; it may still be refused."""
    position = choice.number(0, len(schedule.stages) - 1)
    stage = schedule.stages[position]
    loops = stage.leaf_axis
    kind = choice.pick(kinds)
    if kind in ("reuse_at", "cache_read") and not stage.op.reads:
        kind = "split"

    def of(s: Schedule) -> Stage:
        return s.stages[position]

    if kind == "split":
        axis = choice.pick(loops)
        size = choice.number(1, 5)
        if choice.number(0, 1):
            return Command(f"{stage.name}.split({axis.name}, {size})", lambda s: of(s).split(axis, factor=size))
        return Command(f"{stage.name}.split({axis.name}, nparts={size})", lambda s: of(s).split(axis, nparts=size))
    if kind == "tile":
        x, y = choice.pick(loops), choice.pick(loops)
        a, b = choice.number(1, 4), choice.number(1, 4)
        return Command(f"{stage.name}.tile({x.name}, {y.name}, {a}, {b})", lambda s: of(s).tile(x, y, a, b))
    if kind == "reorder":
        order = choice.shuffled(loops)
        names = ", ".join(axis.name for axis in order)
        return Command(f"{stage.name}.reorder({names})", lambda s: of(s).reorder(*order))
    if kind == "fuse":
        at = choice.number(0, len(loops) - 1)
        pair = loops[at], loops[min_of(at + 1, len(loops) - 1)]
        return Command(f"{stage.name}.fuse({pair[0].name}, {pair[1].name})", lambda s: of(s).fuse(*pair))
    if kind == "unroll":
        axis = choice.pick(loops)
        return Command(f"{stage.name}.unroll({axis.name})", lambda s: of(s).unroll(axis))
    if kind == "compute_at":
        readers = [n for n, s in enumerate(schedule.stages) if any(t in _read(s) for t in stage.state.tensors)]
        others = readers if readers and choice.number(0, 3) else list(range(len(schedule.stages)))
        host = choice.pick(others)
        axis = choice.pick(schedule.stages[host].leaf_axis)
        text = f"{stage.name}.compute_at({schedule.stages[host].name}, {axis.name})"
        return Command(text, lambda s: of(s).compute_at(s.stages[host], axis))
    if kind in ORDER:
        return _order(choice, schedule, position, kind)
    if kind == "compute_root":
        return Command(f"{stage.name}.compute_root()", lambda s: of(s).compute_root())
    if kind == "emit_insn":
        axis = choice.pick(loops)
        return Command(f"{stage.name}.emit_insn({axis.name})", lambda s: of(s).emit_insn(axis, "alu"))
    if kind == "reuse_at":
        axis = choice.pick(loops)
        tensor = choice.pick([read.tensor for read in stage.op.reads])
        options = {"form": choice.pick(["ring", "shift"]), "prologue": choice.pick(["loop", "first"])}
        if tensor.computation is not None and choice.number(0, 1):
            text = f"{tensor.name}.reuse_at({stage.name}, {axis.name}, {options})"
            return Command(text, lambda s: s[tensor].reuse_at(of(s), axis, **options))
        text = f"reuse_at({tensor.name}, {stage.name}, {axis.name}, {options})"
        return Command(text, lambda s: s.reuse_at(tensor, of(s), axis, **options))
    scope = choice.pick((DRAM, *OPERANDS, ACC))
    if kind == "set_scope":
        return Command(f"{stage.name}.set_scope({scope})", lambda s: of(s).set_scope(scope))
    if kind == "cache_write":
        return Command(f"cache_write({stage.tensor.name}, {scope})", lambda s: s.cache_write(stage.tensor, scope))
    assert kind == "cache_read"
    tensor = choice.pick([read.tensor for read in stage.op.reads])
    if choice.number(0, 1):
        return Command(f"cache_read({tensor.name}, {scope})", lambda s: s.cache_read(tensor, scope))
    return Command(f"cache_read({tensor.name}, {scope}, {stage.name})", lambda s: s.cache_read(tensor, scope, [of(s)]))


ORDER = (
    "reverse",
    "shift",
    "skew",
    "interchange",
    "separate",
    "inline",
    "after",
    "after",
    "after",
    "set_schedule",
    "vectorize",
    "tile3",
    "compute_at_exactly",
    "compute_at_exactly",
)


def any_schedule(choice: Choice, kinds: tuple[str, ...], most_computations: int) -> Schedule:
    """A schedule of a random program after eight random primitives, except refused ones."""
    schedule = create_schedule(programs(choice, choice.number(2, most_computations)))
    for _ in range(8):
        with suppress(ScheduleError):
            commands(choice, schedule, kinds).run(schedule)
    return schedule


def _order(choice: Choice, schedule: Schedule, position: int, kind: str) -> Command:
    """A primitive on the order of loops and stages."""
    stage = schedule.stages[position]
    loops = stage.leaf_axis
    x, y = choice.pick(loops), choice.pick(loops)
    number = choice.number(1, 4)

    def of(s: Schedule) -> Stage:
        return s.stages[position]

    if kind == "reverse":
        return Command(f"{stage.name}.reverse({x.name})", lambda s: of(s).reverse(x))
    if kind == "shift":
        return Command(f"{stage.name}.shift({x.name}, {number})", lambda s: of(s).shift(x, number))
    if kind == "skew":
        a, b = choice.number(-2, 2), choice.pick([1, 1, 1, -1, 2])
        return Command(f"{stage.name}.skew({x.name}, {y.name}, {a}, {b})", lambda s: of(s).skew(x, y, a, b))
    if kind == "interchange":
        return Command(f"{stage.name}.interchange({x.name}, {y.name})", lambda s: of(s).interchange(x, y))
    if kind == "separate":
        return Command(f"{stage.name}.separate({x.name}, {number})", lambda s: of(s).separate(x, number))
    if kind == "vectorize":
        return Command(f"{stage.name}.vectorize({x.name}, {number})", lambda s: of(s).vectorize(x, number))
    if kind == "inline":
        return Command(f"{stage.name}.inline()", lambda s: of(s).inline())
    if kind == "tile3":
        three = choice.shuffled(loops)[:3]
        return Command(f"{stage.name}.tile({three})", lambda s: of(s).tile(*three, *[number] * len(three)))
    if kind == "set_schedule":
        rank = len(stage.op.axes) + len(stage.op.reduce_axes)
        names = [f"x{n}" for n in range(rank)]
        times = [f"-{name}" if choice.number(0, 3) == 0 else name for name in choice.shuffled(names)]
        if rank > 1 and choice.number(0, 1):
            times[-1] = f"{times[-1]} + {number} * {times[0]}"
        if choice.number(0, 1):
            times[:1] = [f"floor(({times[0]})/{number})", times[0]]
        text = f"{{ [{', '.join(names)}] -> [{', '.join(times)}] }}"
        return Command(f"{stage.name}.set_schedule({text})", lambda s: of(s).set_schedule(text))
    if kind == "compute_at_exactly":
        readers = [n for n, s in enumerate(schedule.stages) if any(t in _read(s) for t in stage.state.tensors)]
        host = choice.pick(readers or [position])
        axis, region = choice.pick(schedule.stages[host].leaf_axis), choice.pick(["exact", "missing"])
        text = f"{stage.name}.compute_at({schedule.stages[host].name}, {axis.name}, {region})"
        return Command(text, lambda s: of(s).compute_at(s.stages[host], axis, region))
    assert kind == "after"
    other = choice.number(0, len(schedule.stages) - 1)
    at = x if choice.number(0, 5) else None
    text = f"{stage.name}.after({schedule.stages[other].name}, {at and at.name})"
    return Command(text, lambda s: of(s).after(s.stages[other], at))


def min_of(a: int, b: int) -> int:
    return a if a < b else b


def _read(stage: Stage) -> set[Tensor]:
    return {read.tensor for read in stage.op.reads}
