"""Errors of invalid parameters, with the names and values that their messages mention."""

import pytest
from mistaken_programs import Mistake, check_message

from lathe.configs import load_config
from lathe.frontend import DomainError, ParameterError, TensorError, compute, parameter, placeholder, reduce_axis
from lathe.frontend import reference as meaning
from lathe.frontend import sum as total
from lathe.scheduler import LegalityError, ScheduleError, bind, build, create_schedule, interpret, lower

CFG = load_config("vta")
N, M = parameter("N", minimum=3), parameter("M", 1, 50)
A = placeholder((N, M), "int8", "A")
B = compute((N, M), lambda i, j: A[i, j].astype("int32") + 1, "B")
P = compute((N,), lambda i: A[i, 0].astype("int32"), "P")
Q = compute((N,), lambda i: P[N - 1 - i] * 2, "Q", where=lambda i: i >= 60)
FIXED = placeholder((4,), "int8", "F")
D = compute((4,), lambda i: FIXED[i] + 1, "D")


def refused_later():
    s = create_schedule(Q)
    s[Q].after(s[P], "i")
    bind(s, {"N": 200, "M": 1})


def impossible_later():
    s = create_schedule(B)
    s[B].split("i", factor=N - 3)
    bind(s, {"N": 3, "M": 1})


def twice():
    other = parameter("N")
    build(compute((N, 2), lambda i, _: (i * other).astype("int32"), "X"), [], CFG)


# fmt: off
CASES = [
    Mistake("missing", lambda: build(B, [A, B], CFG, parameters={"M": 4}), ParameterError,
        ("build", "'N'", "missing", "'N', 'M'", "parameters={'N': 102}")),
    Mistake("none given", lambda: lower(create_schedule(B), [A, B], CFG), ParameterError,
        ("lower", "'N'", "missing", "'N', 'M'", "parameters={'N': 102}")),
    Mistake("unknown", lambda: interpret(create_schedule(B), {}, parameters={"N": 4, "M": 4, "K": 4}), ParameterError,
        ("interpret", "('N', 'M')", "'K'")),
    Mistake("of a program without", lambda: build(D, [FIXED, D], CFG, parameters={"N": 3}), ParameterError,
        ("build", "(none)", "'N'")),
    Mistake("too small", lambda: meaning(B, {}, parameters={"N": 2, "M": 4}), ParameterError,
        ("'N'", "reference", "at least 3", 2)),
    Mistake("too large", lambda: bind(B, {"N": 3, "M": 51}), ParameterError, ("'M'", "bind", "at most 50", 51)),
    Mistake("no number", lambda: bind(B, {"N": "all", "M": 4}), ParameterError, ("'N'", "bind", "'all'")),
    Mistake("no names", lambda: bind(B, [3, 4]), ParameterError, ("bind", "parameters={'N': 100}", "[3, 4]")),
    Mistake("one name twice", twice, ParameterError, ("names", "'N'")),
    Mistake("an empty range", lambda: parameter("K", 5, 4), TensorError, ("range", "'K'", "0 to 2147483647", 5, 4)),
    Mistake("an atypical value", lambda: parameter("K", 5, 9, typical=4), TensorError, ("typical", "'K'", "5 to 9", 4)),
    Mistake("an empty extent", lambda: placeholder((M, N - 3), "int8", "X"), TensorError,
        ("dimension 1", "'X'", "N - 3 = 0", "N = 3")),
    Mistake("an empty reduction", lambda: reduce_axis((3, N), "k"), TensorError, ("'k'", "N - 3 = 0", "N = 3")),
    Mistake("a read outside", lambda: compute((N, M), lambda i, j: A[i + 1, j], "X"), DomainError,
        ("A[i + 1, j]", "'X'", "(N, M)", "'A'", "A[3, 0]", "i = 2, j = 0", "N = 3 and M = 1")),
    Mistake("a read outside for some values",
        lambda: compute((N,), lambda i: total(A[i, i], axis=reduce_axis(2, "r")), "X"), DomainError,
        ("A[i, i]", "'X'", "(N, M)", "'A'", "A[1, 1]", "i = 1, r = 0", "N = 3 and M = 1")),
    Mistake("a read outside the domain", lambda: compute((N,), lambda i: Q[i], "X", where=lambda i: i > 50),
        DomainError, ("Q[i]", "'X'", "'Q'", "i >= 60", "Q[51]", "i = 51", "N = 52")),
    Mistake("a parameter in an if", lambda: 3 if N > 2 else 4, TensorError,
        ("N > 2", "select(condition, then, otherwise)")),
    Mistake("a command that is illegal later", refused_later, LegalityError,
        ("1 of the schedule", "Q.after(P, i)", "N = 200 and M = 1", "N = 102 and M = 50", "P[139]", "i=60", "i=139")),
    Mistake("a command that is impossible later", impossible_later, ScheduleError,
        ("1 of the schedule", "B.split(i, factor=N - 3)", "N = 3 and M = 1", "N = 102 and M = 50", "B", "i", 0)),
]
# fmt: on


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_error(case):
    check_message(case)
