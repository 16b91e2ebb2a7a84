"""Random schedules, by primitives of the whole language: loops, compute locations, order, layouts, storage, queues."""

from collections.abc import Callable
from typing import Any

from random_commands import LOOPS, ORDER, Command, commands
from random_domains import programs_with_domains
from random_layouts import layouts
from random_programs import Choice, programs
from random_recurrences import recurrences
from seeds import note

from lathe.frontend import format_program
from lathe.scheduler import Schedule, create_schedule
from lathe.scheduler.primitives.store_in import buffer
from lathe.scheduler.schedule_ir.storage import StorageBuffer

MOST_ON_MACHINE = 4_000
"""Schedules with more instances are not built and simulated, since compiling them instance by instance takes long."""

QUEUES = ("parallelize", "distribute", "vthread", "double_buffer")
NEIGHBOURS = ("before", "then", "between")
STORAGE = ("store_in", "store_in", "allocate_at")
COPIES = ("copy_at", "merge_adjacent", "reorder_to_buffer", "remove_dead_stores")
CONDITIONS = ("overcompute", "branch", "reduce_extent")
SIGNALS = ("barrier_at", "send", "receive")


def any_command(choice: Choice, schedule: Schedule) -> Command:
    """A command that is possible on the current schedule; it may still be refused."""
    kinds = (*LOOPS, *ORDER, *NEIGHBOURS, *QUEUES, *STORAGE, *COPIES, *CONDITIONS, *SIGNALS, "layout", "layout")
    return commands_of(choice, schedule, kinds)


def commands_of(choice: Choice, schedule: Schedule, kinds: tuple[str, ...]) -> Command:
    """A command of one of some kinds; it may be refused."""
    kind = choice.pick(list(kinds))
    if kind == "layout":
        return layouts(choice, schedule)
    if kind not in {**_QUEUES, **_NEIGHBOURS, **_STORAGE, **_OTHERS}:
        return commands(choice, schedule, (kind,))
    number = choice.number(0, len(schedule.stages) - 1)
    return {**_QUEUES, **_NEIGHBOURS, **_STORAGE, **_OTHERS}[kind](choice, schedule, number, kind)


def _queues(choice: Choice, schedule: Schedule, number: int, kind: str) -> Command:
    stage = schedule.stages[number]
    loop, count = choice.pick(stage.leaf_axis), choice.number(1, 3)
    if kind == "double_buffer":
        return Command(f"{stage.name}.double_buffer({count})", lambda s: s.stages[number].double_buffer(count))
    if kind == "vthread":
        return Command(f"{stage.name}.vthread({loop.name}, {count})", lambda s: s.stages[number].vthread(loop, count))
    return Command(f"{stage.name}.{kind}({loop.name})", lambda s: getattr(s.stages[number], kind)(loop))


def _neighbours(choice: Choice, schedule: Schedule, number: int, kind: str) -> Command:
    stage, other = schedule.stages[number], choice.number(0, len(schedule.stages) - 1)
    name, loop = schedule.stages[other].name, choice.pick([None, *schedule.stages[other].leaf_axis])
    if kind != "between":
        text = f"{stage.name}.{kind}({name}, {loop and loop.name})"
        return Command(text, lambda s: getattr(s.stages[number], kind)(s.stages[other], loop))
    last = choice.number(0, len(schedule.stages) - 1)
    own, last_loop = choice.pick([None, *stage.leaf_axis]), choice.pick([None, *schedule.stages[last].leaf_axis])
    text = f"{stage.name}.between({name}, {own and own.name}, {schedule.stages[last].name}, {last_loop})"
    return Command(text, lambda s: s.stages[number].between(s.stages[other], own, s.stages[last], last_loop))


def _store_in(choice: Choice, schedule: Schedule, number: int, _: str) -> Command:
    """A storage map that drops, permutes and folds indices; sometimes into a buffer of another stage."""
    stage = schedule.stages[number]
    rank = len(stage.op.axes)
    order = choice.shuffled(range(rank))[: choice.number(max(rank - 1, 1), rank)]
    folds = [choice.pick([0, 0, 0, 1, 2, 3, 4]) for _ in order]
    scope = choice.pick([None, None, "acc"])
    given = [other for other in _buffers(schedule) if other.scope in (None, scope)]
    shared = [choice.pick(given)] if given and choice.number(0, 1) else []

    def cell(*indices: Any) -> list[Any]:
        return [indices[d] % fold if fold else indices[d] for d, fold in zip(order, folds, strict=True)]

    text = f"{stage.name}.store_in({[each.name for each in shared]} {order} % {folds}, {scope})"
    return Command(text, lambda s: s.stages[number].store_in(*shared, cell, scope=scope))


def _allocate_at(choice: Choice, schedule: Schedule, number: int, _: str) -> Command:
    stage = schedule.stages[number]
    loop = choice.pick(stage.leaf_axis)
    where = choice.pick([*_buffers(schedule), buffer(schedule, "new")])
    return Command(
        f"allocate_at({where.name}, {stage.name}, {loop.name})", lambda s: s.allocate_at(where, s.stages[number], loop)
    )


def _conditions(choice: Choice, schedule: Schedule, number: int, kind: str) -> Command:
    stage = schedule.stages[number]
    loop = choice.pick([*([] if kind == "reduce_extent" else [None]), *stage.leaf_axis])
    return Command(f"{stage.name}.{kind}({loop and loop.name})", lambda s: getattr(s.stages[number], kind)(loop))


def _copies(choice: Choice, schedule: Schedule, number: int, kind: str) -> Command:
    stage = schedule.stages[number]
    if kind == "remove_dead_stores" or not stage.op.reads:
        return Command("remove_dead_stores()", lambda s: s.remove_dead_stores())
    tensor, loop = choice.pick([read.tensor for read in stage.op.reads]), choice.pick(stage.leaf_axis)
    scope = choice.pick(["acc", "inp", "dram"])
    if kind == "reorder_to_buffer":
        text = f"{stage.name}.reorder_to_buffer({tensor.name})"
        return Command(text, lambda s: s.stages[number].reorder_to_buffer(tensor))
    if kind == "merge_adjacent":
        other = min(number + 1, len(schedule.stages) - 1)
        text = f"merge_adjacent({stage.name}, {schedule.stages[other].name})"
        return Command(text, lambda s: s.merge_adjacent(s.stages[number], s.stages[other]))
    text = f"copy_at({tensor.name}, {stage.name}, {loop.name}, {scope})"
    return Command(text, lambda s: s.copy_at(tensor, s.stages[number], loop, scope))


def _signals(choice: Choice, schedule: Schedule, number: int, kind: str) -> Command:
    stage = schedule.stages[number]
    loop, unit = choice.pick([None, *stage.leaf_axis]), choice.pick(["load", "compute", "store"])
    if kind == "barrier_at":
        text = f"barrier_at({stage.name}, {loop and loop.name})"
        return Command(text, lambda s: s.barrier_at(s.stages[number], loop))
    text = f"{stage.name}.{kind}({unit}, {loop and loop.name})"
    return Command(text, lambda s: getattr(s.stages[number], kind)(unit, loop))


def _buffers(schedule: Schedule) -> list[StorageBuffer]:
    return list(dict.fromkeys(each.state.storage.buffer for each in schedule.stages if each.state.storage is not None))


Draw = Callable[[Choice, Schedule, int, str], Command]
_QUEUES: dict[str, Draw] = dict.fromkeys(QUEUES, _queues)
_NEIGHBOURS: dict[str, Draw] = dict.fromkeys(NEIGHBOURS, _neighbours)
_OTHERS: dict[str, Draw] = {
    **dict.fromkeys(CONDITIONS, _conditions),
    **dict.fromkeys(COPIES, _copies),
    **dict.fromkeys(SIGNALS, _signals),
}
_STORAGE: dict[str, Draw] = {"store_in": _store_in, "allocate_at": _allocate_at}


def any_schedule(choice: Choice, most_commands: int) -> Schedule:
    """A random program, scheduled with the accepted ones of some random commands."""
    kind = choice.number(0, 4)
    if kind == 0:
        outputs = recurrences(choice)
    else:
        outputs = (programs if kind < 3 else programs_with_domains)(choice, choice.number(2, 4))
    schedule = create_schedule(outputs)
    note(format_program(outputs))
    for _ in range(choice.number(1, most_commands)):
        any_command(choice, schedule).attempt(schedule)
    return schedule
