"""Shared by the tests of refused primitives: small programs, and the check that a refusal changes nothing."""

from collections.abc import Callable
from dataclasses import dataclass

from error_checks import raises

from lathe.configs import load_config
from lathe.frontend import Tensor, compute, placeholder, placeholders
from lathe.frontend.operators import matmul
from lathe.scheduler import Schedule, ScheduleError, create_schedule, lower

CONFIG = load_config("vta")

A = placeholder(60, "int8", "A")
B = compute(60, lambda i: A[i] + 1, "B")
C = compute(60, lambda i: B[i] * 2, "C")
D = compute(60, lambda i: C[59 - i] + B[i], "D")
low, high = compute(60, lambda i: (A[i] + 1, A[i] - 1), "pair")
X, Y = placeholder((8, 6), "int8", "X"), placeholder((4, 6), "int8", "Y")
M = matmul(X, Y, transpose_b=True, name="M")
half = compute(30, lambda i: B[i] * 2, "half")
E = compute(60, lambda i: half[i // 2] + B[i], "E")
N = compute((8, 6), lambda i, io: X[i, io] + 1, "N")
ELSEWHERE = create_schedule(D)
E1 = compute(59, lambda i: B[i + 1] * 2, "E1")
W = compute(59, lambda i: B[i] + B[i + 1], "W")
F2 = compute(60, lambda i: C[i] + 1, "F2")
M2 = compute((8, 4), lambda i, j: M[i, j] * 2, "M2")
P2 = compute(60, lambda i: low[i] + high[i], "P2")
R3 = compute(8, lambda i: X[i, 0] + 1, "R3")
M3 = compute((8, 6), lambda i, j: R3[i] + X[i, j], "M3")
Y2 = compute((8, 4), lambda i, j: X[i, j] + 1, "Y2")
Q = compute(58, lambda i: A[i] + A[i + 2], "Q")
W1 = compute(58, lambda i: A[i] + A[i + 1], "W1")
N2 = compute((8, 6), lambda i, io: N[i, io] + 1, "N2")


@dataclass
class Refused:
    """A primitive that is refused on a new schedule of ``output`` after ``prepared``."""

    name: str
    output: Tensor | list[Tensor] | tuple[Tensor, ...]
    mistake: Callable[[Schedule], object]
    kind: str
    mentions: tuple[object, ...]
    prepared: Callable[[Schedule], object] = lambda _: None
    error: type[ScheduleError] = ScheduleError


def steps(*commands: Callable[[Schedule], object]) -> Callable[[Schedule], None]:
    def run(s: Schedule) -> None:
        for command in commands:
            command(s)

    return run


def text_of(s: Schedule) -> str:
    tensors = [*placeholders(s.program), *s.program]
    return "".join(lower(s, tensors, CONFIG, stage) for stage in ("order", "loops", "chunks"))


def check_refused(case: Refused) -> None:
    """The error's type, kind and mentions, and an unchanged schedule."""
    s = create_schedule(case.output)
    case.prepared(s)
    before, states = text_of(s), [(stage, stage.state) for stage in s.stages]
    layouts, outputs = dict(s.layouts), s.outputs
    raises(case.error, case.mistake, s, kind=case.kind, mentions=case.mentions)
    assert text_of(s) == before
    assert [(stage, stage.state) for stage in s.stages] == states
    assert (s.layouts, s.outputs) == (layouts, outputs)
