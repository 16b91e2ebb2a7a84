"""Passes establish their invariants: for each, a program that violates it until the pass has run."""

from collections.abc import Callable
from itertools import pairwise

import pytest
from small_machine import VTA

import lathe as lt
from lathe.scheduler.passes.pipeline import PASSES
from lathe.scheduler.schedule_ir.edit import Edit
from lathe.scheduler.target.target import Target

WIDE = VTA.with_(name="wide", block_in=8, block_out=32, wgt_buffer_bytes=65536)


def int8(*shape: int, name: str = "A") -> lt.Tensor:
    return lt.placeholder(shape, "int8", name=name)


def computed(value: Callable[..., object], shape: tuple[int, ...] = (4, 16), **options: object) -> lt.Schedule:
    return lt.create_schedule(lt.compute(shape, value, name="C", **options))


def domain() -> lt.Schedule:
    A = int8(4, 16)
    return computed(lambda i, j: A[i, j] + 1, where=lambda i, j: i >= 1 + j * 0)


def constants() -> lt.Schedule:
    A = int8(4, 16)
    return computed(lambda i, j: A[i, j] + (lt.const(2, "int8") - 2))


def two_outputs() -> lt.Schedule:
    A = int8(4, 16)
    return lt.create_schedule(lt.compute((4, 16), lambda i, j: (A[i, j] + 1, A[i, j] + 2), name="C"))


def narrow_sum() -> lt.Schedule:
    A, k = int8(4, 16), lt.reduce_axis((0, 16), name="k")
    return computed(lambda i: lt.sum(A[i, k], k), (4,))


def reshape() -> lt.Schedule:
    A = int8(4, 16)
    B = lt.compute((64,), lambda f: A[f // 16, f % 16], name="B")
    return computed(lambda f: B[f] + 1, (64,))


def divided_axis() -> lt.Schedule:
    A, B = int8(4, 16), int8(64, name="B")
    return computed(lambda f: A[f // 16, f % 16] + B[f], (64,))


def partially_read() -> lt.Schedule:
    A = int8(4, 16)
    B = lt.compute((4, 16), lambda i, j: A[i, j] + 1, name="B")
    return computed(lambda i, j: B[i, j] * 2, (2, 16))


def data_dependent_select() -> lt.Schedule:
    A, B = int8(4, 16), int8(4, 16, name="B")
    return computed(lambda i, j: lt.select(A[i, j] > B[i, j], A[i, j], 3))


def index_as_data() -> lt.Schedule:
    A = int8(4, 16)
    return computed(lambda i, j: A[i, j].astype("int32") + j.astype("int32"))


def predicated_product() -> lt.Schedule:
    A, B, k = int8(16, 16), int8(16, 16, name="B"), lt.reduce_axis((0, 16), name="k")
    product = lambda i, j: A[i, k].astype("int32") * B[j, k].astype("int32")  # noqa: E731 - an operand of select
    return computed(lambda i, j: lt.sum(lt.select(k <= i, product(i, j), 0), k), (16, 16))


def shortcut() -> lt.Schedule:
    data, weights = int8(1, 12, 12, 32, name="data"), int8(32, 1, 1, 32, name="weights")
    before = lt.relu(data, name="before")
    branch = lt.requantise(lt.conv2d(before, weights, name="conv"), 7, name="branch")
    return lt.create_schedule(lt.requantise(lt.add(branch, before, name="added"), 1, name="sum"))


def small_depthwise() -> lt.Schedule:
    data, weights = int8(1, 3, 3, 16, name="data"), int8(3, 3, 16, name="weights")
    return lt.create_schedule(lt.requantise(lt.depthwise_conv2d(data, weights, name="conv"), 7, name="C"))


def wide_vectors_in_user_loops() -> lt.Schedule:
    """Stored vectors are wider than those of data, in loops that the user has scheduled."""
    data = int8(1, 4, 4, 32, name="data")
    first = lt.requantise(lt.conv2d(data, int8(32, 1, 1, 32, name="v"), name="first"), 7, name="narrow")
    second = lt.conv2d(first, int8(32, 1, 1, 32, name="w"), name="second")
    s = lt.create_schedule(lt.requantise(second, 7, name="C"))
    s[second].set_scope("acc")
    return s


VIOLATING = {
    "legalize-domains": [(domain, VTA)],
    "fold-constants": [(constants, VTA)],
    "split-outputs": [(two_outputs, VTA)],
    "widen-accumulators": [(narrow_sum, VTA)],
    "fold-reshapes": [(reshape, VTA)],
    "delinearize-axes": [(divided_axis, VTA)],
    "eliminate-dead-elements": [(partially_read, VTA)],
    "if-convert": [(data_dependent_select, VTA), (index_as_data, VTA), (predicated_product, VTA)],
    "load-residual-via-gemm": [(shortcut, VTA)],
    "select-execution-units": [(small_depthwise, VTA)],
    "coalesce-loads": [(wide_vectors_in_user_loops, WIDE)],
    "select-instructions": [(divided_axis, VTA)],
}
"""Pairs of program and machine, by the pass that establishes the invariant that the program violates."""


@pytest.mark.parametrize(
    ("name", "program", "machine"),
    [pytest.param(name, *each, id=f"{name}-{each[0].__name__}") for name, all_ in VIOLATING.items() for each in all_],
)
def test_without_the_pass_there_is_a_counterexample(name, program, machine):
    state, target = program().state, Target(machine)
    given = []
    for each in PASSES:
        if each.name == name:
            violated = [one for one in each.establishes if one.counterexample(Edit(state), target) is not None]
            assert violated, f"the program violates no invariant that {name} establishes"
        state = each.apply(state, target)
        given += each.establishes
        for one in given if each.name == name else ():
            assert one.counterexample(Edit(state), target) is None


ORDERED = [
    ["assign-memory-scopes", "insert-writeback", "normalize-compute-at", "resolve-layout-conflicts"],
    [
        "legalize-domains",
        "overcompute-padding",
        "fold-constants",
        "fold-reshapes",
        "delinearize-axes",
        "eliminate-dead-elements",
        "if-convert",
    ],
    [
        "if-convert",
        "load-residual-via-gemm",
        "select-execution-units",
        "resolve-layout-conflicts",
        "insert-layout-conversions",
        "tile-and-fuse",
    ],
    ["tile-and-fuse", "insert-cache-reads", "coalesce-loads"],
    ["split-outputs", "outline-lookups", "fuse-lookups-into-rescale"],
    ["split-outputs", "widen-accumulators", "lower-sum-to-gemm"],
    ["delinearize-axes", "lower-sum-to-gemm"],
    ["insert-cache-reads", "select-instructions"],
]
"""Passes of which each requires an invariant that the one before establishes, so that the two cannot be swapped."""


@pytest.mark.parametrize("names", ORDERED, ids="-".join)
def test_required_invariants_fix_an_order(names):
    passes = {each.name: each for each in PASSES}
    for before, after in pairwise(names):
        assert set(passes[before].establishes) & set(passes[after].requires), f"{after} requires nothing of {before}"
