"""Helpers for tests of primitives: programs, printed levels of a schedule, and its comparison with NumPy."""

from meanings import check_values
from random_programs import random_inputs

from lathe.configs import load_config
from lathe.frontend import Tensor, compute, placeholder, placeholders, reduce_axis, sum
from lathe.scheduler import Schedule, create_schedule, interpret, lower

CONFIG = load_config("vta")


def text(schedule: Schedule, *stages: str) -> str:
    """The printed levels of a schedule, concatenated; "loops" if none is named."""
    tensors = [*placeholders(schedule.program), *schedule.program]
    return "".join(lower(schedule, tensors, CONFIG, stage) for stage in stages or ("loops",))


def levels(schedule: Schedule) -> str:
    """Order, loops and chunks, under headings, for golden files."""
    return "\n".join(f"# {stage}\n{text(schedule, stage)}" for stage in ("order", "loops", "chunks"))


def check(schedule: Schedule) -> None:
    """Execute the partitioned nest on random inputs; fail where it differs from NumPy."""
    inputs = random_inputs(list(schedule.program), seed=0)
    found = interpret(schedule, inputs)
    assert list(found) == [tensor.name for tensor in schedule.program]
    check_values(found, list(schedule.program), inputs)


def plus_one(extent: int = 60) -> tuple[Tensor, Tensor, Schedule]:
    A = placeholder(extent, "int8", "A")
    C = compute(extent, lambda i: A[i] + 1, "C")
    return A, C, create_schedule(C)


def two_stages(extent: int = 60) -> tuple[Tensor, Tensor, Schedule]:
    A = placeholder(extent, "int8", "A")
    B = compute(extent, lambda i: A[i] + 1, "B")
    C = compute(extent, lambda i: B[i] * 2, "C")
    return B, C, create_schedule(C)


def grid(height: int = 5, width: int = 7) -> tuple[Tensor, Schedule]:
    A = placeholder((height, width), "int32", "A")
    C = compute((height, width), lambda i, j: A[i, j] + 1, "C")
    return C, create_schedule(C)


def blur(height: int = 9, width: int = 13) -> tuple[Tensor, Tensor, Schedule]:
    """Two stencils, one after the other: a window of 3 along each dimension."""
    A = placeholder((height, width), "int32", "A")
    B = compute((height, width - 2), lambda y, x: A[y, x] + A[y, x + 1] + A[y, x + 2], "B")
    C = compute((height - 2, width - 2), lambda y, x: B[y, x] + B[y + 1, x] + B[y + 2, x], "C")
    return B, C, create_schedule(C)


def rows(height: int = 10, width: int = 16) -> tuple[Tensor, Tensor, Schedule]:
    """Sums of three neighbouring rows of a computed tensor."""
    A = placeholder((height, width), "int8", "A")
    B = compute((height, width), lambda i, c: A[i, c].astype("int32") * 3, "B")
    D = compute((height - 2, width), lambda i, c: B[i, c] + B[i + 1, c] + B[i + 2, c], "D")
    return B, D, create_schedule(D)


def row_sum() -> tuple[Tensor, Tensor]:
    """The RFC's first example of overcompute."""
    A = placeholder((16, 14), "int32", "A")
    j = reduce_axis(14, "j")
    return A, compute(16, lambda i: sum(A[i, j], axis=j), "B")
