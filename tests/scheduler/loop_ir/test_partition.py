"""Partitioning: boxes of constant extents that cover the instances admitted by conditions, once, in loop order."""

from collections import Counter
from collections.abc import Callable, Iterator
from itertools import product
from math import prod
from typing import Any

import islpy as isl
import numpy as np
import pytest
from executions import Instance, execution
from hypothesis import given, settings
from hypothesis import strategies as st
from random_commands import LOOPS, commands
from random_programs import Choice, programs
from seeds import check_each

from lathe.frontend import compute, placeholder, reduce_axis, sum
from lathe.frontend.arith.linear import Linear, LoopVariable, bound_value
from lathe.frontend.operators import conv2d, max_pool2d
from lathe.scheduler import Schedule, ScheduleError, Stage, create_schedule
from lathe.scheduler.loop_ir.build_nest import build_nest
from lathe.scheduler.loop_ir.compute_locations import place_stages
from lathe.scheduler.loop_ir.instances import instances
from lathe.scheduler.loop_ir.nodes import Alloc, ChunkNode, Guard, Loop, Node, StatementBlock
from lathe.scheduler.loop_ir.partition import cut, partition

Environment = dict[LoopVariable, int]
Statement = tuple[str, str, tuple[int, ...]]


def statements_of_conditions(nodes: list[Node], environment: Environment) -> Iterator[Statement]:
    """The instances of a nest before partitioning, by evaluating the conditions in every iteration."""
    for node in nodes:
        if isinstance(node, Loop):
            for value in range(node.first, node.last + 1):
                here = environment | {node.variable: value}
                if all(bound_value(each, here) >= 0 for each in node.constraints):
                    yield from statements_of_conditions(node.body, here)
        elif isinstance(node, Guard):
            if all(bound_value(each, environment) >= 0 for each in node.constraints):
                yield from statements_of_conditions(node.body, environment)
        elif isinstance(node, StatementBlock):
            for values in product(*(range(variable.extent) for variable in node.variables)):
                here = environment | dict(zip(node.variables, values, strict=True))
                if all(bound_value(each, here) >= 0 for each in node.constraints):
                    point = tuple(bound_value(value, here) for value in node.roots.values())
                    yield node.placement.stage.name, node.role, point


def statements_of_chunks(nodes: list[Node], environment: Environment) -> Iterator[Statement]:
    """The instances of a partitioned nest; fails at anything that is not constant."""
    for node in nodes:
        if isinstance(node, Loop):
            assert node.constraints == ()
            assert node.first <= node.last
            for value in range(node.first, node.last + 1):
                yield from statements_of_chunks(node.body, environment | {node.variable: value})
        elif isinstance(node, Alloc):
            for low, extent in zip(node.low, node.extent, strict=True):
                assert isinstance(low, Linear)
                assert isinstance(extent, Linear)
                assert extent.is_constant
        elif isinstance(node, ChunkNode):
            extents = [extent for _, extent in node.loops]
            assert all(type(extent) is int and extent >= 1 for extent in extents)
            for values in product(*map(range, extents)):
                here = environment | dict(zip([variable for variable, _ in node.loops], values, strict=True))
                yield node.placement.stage.name, node.role, tuple(value.value(here) for value in node.roots.values())


def check_partition(schedule: Schedule) -> None:
    """Compare chunks with conditions evaluated in every iteration, with the domains, and with isl."""
    fine = list(statements_of_chunks(partition(build_nest(schedule)), {}))
    tried = list(statements_of_conditions(build_nest(schedule), {}))
    if not any(stage.state.pragma for stage in schedule.stages):
        in_order = [each for each in fine if each[1] != "init"]  # initialisations of a loop are one block
        assert in_order == [each for each in tried if each[1] != "init"], "partitioning loops must keep their order"
    large = Counter(statements_of_chunks(partition(build_nest(schedule, largest_blocks=True)), {}))
    assert large == Counter(fine) == Counter(tried)
    for stage in schedule.stages:
        check_domain(stage, large)
        check_against_isl(schedule, stage)


def check_domain(stage: Stage, executed: Counter[Statement]) -> None:
    """A root-level stage executes every point of its domain once, and every initialisation once."""
    if stage.state.attachment is not None:
        return
    roles = {(role, point) for name, role, point in executed if name == stage.name}
    axes = [*stage.op.axes, *stage.op.reduce_axes]
    kind = "update" if stage.op.reduce_axes else "map"
    points = set(product(*(range(axis.start, axis.start + axis.extent) for axis in axes)))
    assert {point for role, point in roles if role == kind} == points
    starts = {point for role, point in roles if role == "init"}
    assert starts == (set(product(*map(range, stage.op.shape))) if stage.op.reduce_axes else set())
    assert all(count == 1 for (name, _, _), count in executed.items() if name == stage.name)


def check_against_isl(schedule: Schedule, stage: Stage) -> None:
    """The instances that isl derives from the same region: as many, at the same points."""
    placement = place_stages(schedule)[stage]
    relation = instances(placement)
    if prod(variable.extent for variable in [*placement.prefix, *placement.loops.variables]) > 2000:
        return
    found: Counter[tuple[int, ...]] = Counter()

    def visit(point: Any) -> None:
        rank = point.get_space().dim(isl.dim_type.set)
        width = len(stage.state.roots)
        values = [int(point.get_coordinate_val(isl.dim_type.set, n).to_python()) for n in range(rank)]
        found[tuple(values[rank - width :])] += 1

    relation.wrap().foreach_point(visit)
    executed = Counter(
        tuple(event.point[axis] for axis in (*stage.op.axes, *stage.op.reduce_axes))
        for event in execution(schedule)
        if isinstance(event, Instance) and event.node.placement.stage is stage and event.node.role != "init"
    )
    if stage.state.attachment is None:
        assert executed == found
    else:  # the enclosing stage may skip iterations in which it computes nothing
        assert set(executed) <= set(found)
        assert all(executed[point] <= found[point] for point in executed)


def one_dimension(extent: int) -> Schedule:
    A = placeholder(extent, "int8", "A")
    return create_schedule(compute(extent, lambda i: A[i] + 1, "C"))


def two_dimensions(height: int, width: int) -> Schedule:
    A = placeholder((height, width), "int8", "A")
    return create_schedule(compute((height, width), lambda i, j: A[i, j] + 1, "C"))


def only(schedule: Schedule) -> Stage:
    (stage,) = schedule.stages
    return stage


sizes = st.integers(1, 14)


@pytest.mark.slow
@settings(max_examples=60, deadline=None, derandomize=True)
@given(extent=st.integers(1, 40), outer=sizes, inner=sizes, ways=st.tuples(st.booleans(), st.booleans()))
def test_a_split_of_a_split(extent, outer, inner, ways):
    schedule = one_dimension(extent)
    stage = only(schedule)
    first = stage.split("i", **{"nparts" if ways[0] else "factor": outer})
    stage.split(first[int(ways[1])], factor=inner)
    check_partition(schedule)


@pytest.mark.slow
@settings(max_examples=60, deadline=None, derandomize=True)
@given(height=st.integers(1, 7), width=st.integers(1, 7), factor=st.integers(1, 20), way=st.booleans())
def test_a_fused_loop_split_by_any_number(height, width, factor, way):
    schedule = two_dimensions(height, width)
    stage = only(schedule)
    stage.split(stage.fuse("i", "j"), **{"nparts" if way else "factor": factor})
    check_partition(schedule)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(height=st.integers(1, 9), width=st.integers(1, 9), y=st.integers(1, 5), x=st.integers(1, 5), again=sizes)
def test_tails_in_two_dimensions_and_a_split_of_the_fused_tiles(height, width, y, x, again):
    schedule = two_dimensions(height, width)
    stage = only(schedule)
    yo, xo, _, _ = stage.tile("i", "j", y, x)
    check_partition(schedule)
    stage.split(stage.fuse(yo, xo), factor=again)
    check_partition(schedule)


@settings(max_examples=40, deadline=None, derandomize=True)
@given(
    extents=st.tuples(*[st.integers(1, 5)] * 3), factors=st.tuples(*[st.integers(1, 4)] * 3), seed=st.integers(0, 99)
)
def test_tails_in_three_dimensions_in_any_order(extents, factors, seed):
    A = placeholder(extents, "int8", "A")
    schedule = create_schedule(compute(extents, lambda i, j, k: A[i, j, k] + 1, "C"))
    stage = only(schedule)
    for axis, factor in zip("ijk", factors, strict=True):
        stage.split(axis, factor=factor)
    stage.reorder(*Choice(seed).shuffled(stage.leaf_axis))
    check_partition(schedule)


@settings(max_examples=60, deadline=None, derandomize=True)
@given(
    extent=st.integers(1, 12),
    stride=st.integers(1, 3),
    taps=st.integers(1, 4),
    factor=st.integers(1, 6),
    scope=st.sampled_from(["dram", "acc"]),
)
def test_windows_with_halos_and_strides(extent, stride, taps, factor, scope):
    size = (extent - 1) * stride + taps
    A, k = placeholder(size, "int8", "A"), reduce_axis(taps, "k")
    B = compute(size, lambda i: A[i] * 2, "B")
    C = compute(extent, lambda i: sum(B[i * stride + k].astype("int32"), axis=k), "C")
    schedule = create_schedule(C)
    io, _ = schedule[C].split("i", factor=factor)
    schedule[B].set_scope(scope)
    schedule[B].compute_at(schedule[C], io)
    check_partition(schedule)
    windows = [event for event in execution(schedule) if isinstance(event, Instance) and event.node.role == "map"]
    full, rest = divmod(extent, factor)
    widths = [(count - 1) * stride + taps for count in [factor] * full + [rest] * (rest > 0)]
    assert len(windows) == int(np.sum(widths)), "each window as wide as its tile needs, no wider"


@pytest.mark.slow
@settings(max_examples=40, deadline=None, derandomize=True)
@given(extent=st.integers(3, 14), factor=st.integers(1, 7), shift=st.integers(0, 2), inner=st.integers(1, 4))
def test_a_producer_with_two_consumers(extent, factor, shift, inner):
    A = placeholder(extent, "int8", "A")
    B = compute(extent, lambda i: A[i] * 2, "B")
    C = compute(extent - shift, lambda i: B[i] + B[i + shift], "C")
    D = compute(extent - shift, lambda i: C[i] - B[extent - 1 - i], "D")
    schedule = create_schedule(D)
    io, _ = schedule[D].split("i", factor=factor)
    schedule[C].compute_at(schedule[D], io)
    schedule[B].set_scope("acc")
    schedule[B].compute_at(schedule[D], io)
    schedule[C].split("i", factor=inner)
    schedule[B].split("i", factor=inner)
    check_partition(schedule)


def padded_pooling() -> Schedule:
    A = placeholder((1, 7, 9, 2), "int8", "A")
    return create_schedule(max_pool2d(A, 3, stride=2, padding=1, name="C"))


def padded_convolution() -> Schedule:
    A, W = placeholder((1, 6, 5, 3), "int8", "A"), placeholder((2, 3, 3, 3), "int8", "W")
    return create_schedule(conv2d(A, W, padding=1, stride=2, name="C"))


@pytest.mark.parametrize("program", [padded_pooling, padded_convolution])
@pytest.mark.parametrize("factors", [(1, 1), (2, 3), (3, 2), (4, 4)])
def test_padded_windows_in_tiles(program: Callable[[], Schedule], factors: tuple[int, int]):
    schedule = program()
    padding, result = schedule.stages[0], schedule.stages[-1]
    _, xo, _, _ = result.tile("y", "x", *factors)
    padding.set_scope("inp")
    padding.compute_at(result, xo)
    padding.split(padding.axis[1], factor=2)
    check_partition(schedule)


def check_random_partition(seed: int, most_computations: int, most_commands: int) -> None:
    choice = Choice(seed)
    schedule = create_schedule(programs(choice, choice.number(1, most_computations)))
    for _ in range(choice.number(1, most_commands)):
        try:
            commands(choice, schedule, LOOPS).run(schedule)
        except ScheduleError:
            continue
    check_partition(schedule)


@pytest.mark.seeds(12, slow=288, block=30)
def test_random_schedules(seeds):
    check_each(seeds, check_random_partition, 3, 8)


@pytest.mark.nightly
@pytest.mark.seeds(5000, first=1_000_000, block=100)
def test_many_more_random_schedules(seeds):
    check_each(seeds, check_random_partition, 5, 14)


def test_a_range_is_cut_only_where_a_sign_depends_on_it():
    i, j = LoopVariable("i", 10), LoopVariable("j", 4)
    room = Linear(21, {i: -4, j: -1})  # negative from i=6 on, not negative up to i=4; i=5 depends on j
    assert cut(i, (0, 9), [(room, False)], {j: (0, 3)}) == [(0, 4), (5, 5), (6, 9)]
    assert cut(j, (0, 3), [(room, False)], {i: (5, 5)}) == [(0, 1), (2, 3)]
    assert cut(j, (0, 3), [(room, False)], {i: (0, 4)}) == [(0, 3)]
