"""``vectorize``, ``parallelize``, ``distribute`` and ``is_parallel``, compared with execution instance by instance."""

from itertools import product

import pytest
from documented import as_documented
from error_checks import raises
from executions import cell_of
from nests import blur, check, text, two_stages
from random_commands import MOVES, ORDER, any_schedule
from random_programs import Choice, random_inputs
from small_machine import run

from lathe.configs import load_config
from lathe.frontend import Tensor, compute, placeholder
from lathe.scheduler import EmitError, Schedule, ScheduleError, Stage, build, create_schedule
from lathe.scheduler.layout.layout_assignment import assign_lanes
from lathe.scheduler.loop_ir.build_nest import build_nest
from lathe.scheduler.loop_ir.nodes import Alloc, ChunkNode, Loop, Node
from lathe.scheduler.loop_ir.partition import partition
from lathe.scheduler.passes.pipeline import run_pipeline
from lathe.scheduler.primitives.parallelize import distribute, parallelize
from lathe.scheduler.primitives.vectorize import vectorize
from lathe.scheduler.schedule_ir.loops import LoopAxis
from lathe.scheduler.schedule_ir.memories import DRAM


def grid():
    A = placeholder((64, 96), "int32", "A")
    return compute((64, 96), lambda i, j: A[i, j] + 1, "C")


@pytest.mark.parametrize(
    ("command", "arguments"), [(vectorize, ("j", 16)), (parallelize, ("i",)), (distribute, ("i",))]
)
def test_documentation_shows_before_and_after(command, arguments):
    C = grid()
    s = create_schedule(C).fork()  # functions, not the methods that wrap them
    with as_documented(command, s, "order"):
        command(s[C], *arguments)
    check(s)


def test_a_loop_of_as_many_iterations_is_marked_itself():
    A = placeholder((4, 16), "int32", "A")
    C = compute((4, 16), lambda i, j: A[i, j] + 1, "C")
    s = create_schedule(C)
    assert s[C].vectorize("j", 16) is s[C].axis[1]


def test_marks_of_shared_loops_are_checked_again_after_later_commands():
    B, C, s = two_stages()
    s[C].after(s[B], "i")
    s[C].parallelize("i")
    s[C].distribute("i")
    assert s.count().marked == {"distribute": {"loop i of C": 60}}
    B, C, s = blur()
    s[C].shift("y", 2)
    s[C].parallelize("y")
    before = text(s, "order")
    with pytest.raises(ScheduleError):
        s[C].after(s[B], "y")
    assert text(s, "order") == before


def blocks(nodes: list[Node]) -> list[ChunkNode]:
    found: list[ChunkNode] = []
    for node in nodes:
        if isinstance(node, Loop):
            found += blocks(node.body)
        elif isinstance(node, ChunkNode):
            found.append(node)
    return found


def carries(schedule: Schedule, stage: Stage, loop: LoopAxis) -> bool:
    """Whether an iteration of the loop reads what another has written, by execution instance by instance."""
    whole = list(partition(build_nest(schedule)))
    placement = next(each.placement for each in blocks(whole) if each.placement.stage is stage)
    variables = placement.loops.of_leaf[loop]
    made: dict[tuple[Tensor, tuple[int, ...]], tuple[object, ...]] = {}
    found = False

    def run(nodes: list[Node], environment: dict[object, int]) -> None:
        nonlocal found
        for node in nodes:
            if isinstance(node, Loop):
                for value in range(node.first, node.last + 1):
                    run(node.body, {**environment, node.variable: value})
            elif isinstance(node, ChunkNode) and node.role != "init":
                chunk(node, environment)
            elif isinstance(node, Alloc):
                for tensor in node.placement.state.tensors:
                    for key in [key for key in made if key[0] is tensor]:
                        del made[key]

    def chunk(node: ChunkNode, environment: dict[object, int]) -> None:
        nonlocal found
        computation = node.placement.state.computation
        for values in product(*(range(extent) for _, extent in node.loops)):
            here = {**environment, **{v: value for (v, _), value in zip(node.loops, values, strict=True)}}
            point = {axis: value.value(here) for axis, value in node.roots.items()}
            around = [*node.placement.prefix, *node.placement.loops.variables]
            inside = all(v in around for v in variables)
            outer = around[: around.index(variables[0])] if inside else []
            when = (tuple(here[v] for v in outer), tuple(here[v] for v in variables)) if inside else None
            if when is not None:
                for read in computation.reads:
                    cell = cell_of(read, point)
                    producer = schedule.producer(read.tensor)
                    if producer is None or producer.state.scope != DRAM or cell is None:
                        continue
                    then = made.get((read.tensor, cell))
                    if then is not None and then[0] == when[0] and then[1] != when[1]:
                        found = True
            for tensor in node.placement.state.tensors:
                made[tensor, tuple(point[axis] for axis in computation.axes)] = when

    run(whole, {})
    return found


@pytest.mark.seeds(10, slow=140)
def test_parallel_is_what_carries_nothing(seed):
    choice = Choice(seed)
    schedule = any_schedule(choice, (*MOVES, *ORDER), 4)
    for stage in schedule.stages:
        attachment = stage.state.attachment
        for loop in stage.state.leaves:
            if loop.kind == "reduce" or (attachment and loop in attachment.loops):
                continue
            assert bool(schedule.is_parallel(loop)) == (not carries(schedule, stage, loop)), (stage.name, loop.name)


def test_lanes_that_vectorize_says_are_kept_or_refused():
    X = placeholder((8, 4), "int32", "X")
    P = compute((8, 16), lambda i, j: X[i, j // 4] + 1, "P")
    run(create_schedule(P), load_config("vta"), random_inputs([P], seed=1))  # build splits j
    s = create_schedule(P)
    s[P].vectorize("j", 16)
    chunk = "P.acc.map(i in 0..8, j//4 in 0..4, j%4 in 0..4) at io=0, jo=0"
    mentions = (chunk, "'alu'", "loop j//4", "X.acc", "dimension 1", "layout of P", "vectorize")
    raises(EmitError, build, s, [X, P], load_config("vta"), mentions=mentions)


def test_lanes_that_vectorize_says_are_those_of_the_elements():
    Y = placeholder((16, 16), "int32", "Y")
    for loop, dimension in (("i", 0), ("j", 1)):
        H = compute((16, 16), lambda i, j: Y[j, i] + 1, "H")
        s = create_schedule(H)
        s[H].vectorize(loop, 16)
        lanes = assign_lanes(run_pipeline(s, load_config("vta")), load_config("vta"))
        assert lanes[H].cols == dimension
        run(s, load_config("vta"), random_inputs([H], seed=1))
