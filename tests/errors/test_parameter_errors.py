"""Every mistake with parameters of a program: the whole message."""

import re

import pytest

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
CASES = {
    "missing": (lambda: build(B, [A, B], CFG, parameters={"M": 4}), ParameterError,
        "parameters of build must hold a value for 'N', which is missing. The program has 'N', 'M'; write "
        "parameters={'N': 102}, for example."),
    "none given": (lambda: lower(create_schedule(B), [A, B], CFG), ParameterError,
        "parameters of lower must hold a value for 'N', which is missing. The program has 'N', 'M'; write "
        "parameters={'N': 102}, for example."),
    "unknown": (lambda: interpret(create_schedule(B), {}, parameters={"N": 4, "M": 4, "K": 4}), ParameterError,
        "parameters of interpret must be those of the program ('N', 'M'), not 'K'."),
    "of a program without": (lambda: build(D, [FIXED, D], CFG, parameters={"N": 3}), ParameterError,
        "parameters of build must be those of the program (none), not 'N'."),
    "too small": (lambda: meaning(B, {}, parameters={"N": 2, "M": 4}), ParameterError,
        "parameter 'N' of reference must be at least 3, not 2."),
    "too large": (lambda: bind(B, {"N": 3, "M": 51}), ParameterError,
        "parameter 'M' of bind must be at most 50, not 51."),
    "no number": (lambda: bind(B, {"N": "all", "M": 4}), ParameterError,
        "parameter 'N' of bind must be an integer, not 'all'."),
    "no names": (lambda: bind(B, [3, 4]), ParameterError,
        "parameters of bind must be numbers by name, as in parameters={'N': 100}, not [3, 4]."),
    "one name twice": (twice, ParameterError,
        "parameters of a program must have different names, not 'N' twice. Make it once, and use that everywhere."),
    "a range of nothing": (lambda: parameter("K", 5, 4), TensorError,
        "range of parameter 'K' must be two integers from 0 to 2147483647, the minimum first, not 5 and 4."),
    "an atypical value": (lambda: parameter("K", 5, 9, typical=4), TensorError,
        "typical value of parameter 'K' must be an integer from 5 to 9, not 4."),
    "an extent of nothing": (lambda: placeholder((M, N - 3), "int8", "X"), TensorError,
        "extent of dimension 1 of placeholder 'X' must be positive for all values of its parameters, not N - 3 = 0 "
        "for N = 3. Raise the minimum of the parameter."),
    "a reduction of nothing": (lambda: reduce_axis((3, N), "k"), TensorError,
        "extent of reduction axis 'k' must be positive for all values of its parameters, not N - 3 = 0 for N = 3. "
        "Raise the minimum of the parameter."),
    "a read outside": (lambda: compute((N, M), lambda i, j: A[i + 1, j], "X"), DomainError,
        "read A[i + 1, j] of computation 'X' must stay inside the shape (N, M) of tensor 'A' for all values of its "
        "parameters, not reach A[3, 0] at i = 2, j = 0 for N = 3 and M = 1. Shrink the domain, guard the read with "
        "select(condition, read, 0), or raise the minimum of the parameter."),
    "a read outside of some": (lambda: compute((N,), lambda i: total(A[i, i], axis=reduce_axis(2, "r")), "X"),
        DomainError,
        "read A[i, i] of computation 'X' must stay inside the shape (N, M) of tensor 'A' for all values of its "
        "parameters, not reach A[1, 1] at i = 1, r = 0 for N = 3 and M = 1. Shrink the domain, guard the read with "
        "select(condition, read, 0), or raise the minimum of the parameter."),
    "a read of what does not exist": (lambda: compute((N,), lambda i: Q[i], "X", where=lambda i: i > 50), DomainError,
        "read Q[i] of computation 'X' must stay inside the domain of tensor 'Q', where i >= 60 for all values of its "
        "parameters, not reach Q[51] at i = 51 for N = 52. Shrink the domain, guard the read with select(condition, "
        "read, 0), or raise the minimum of the parameter."),
    "a number in an if": (lambda: 3 if N > 2 else 4, TensorError,
        "truth of an expression must be left to select(condition, then, otherwise), not taken by if, and, or, not or "
        "a chained comparison: N > 2 has a value at each point only. Write &, | and ~ for the logic, and Lathe's "
        "max and min for the larger and the smaller of two."),
    "a command that is illegal later": (refused_later, LegalityError,
        "command 1 of the schedule, Q.after(P, i), must be possible for N = 200 and M = 1 as it is for N = 102 and M "
        "= 50, not be refused: after must leave P ahead of what Q reads of it, not in loop i of Q as it stands: Q "
        "reads cells that no iteration so far has made. For example, Q(i=60) reads P[139] that P(i=139) writes."),
    "a command that is impossible later": (impossible_later, ScheduleError,
        "command 1 of the schedule, B.split(i, factor=N - 3), must be possible for N = 3 and M = 1 as it is for N = "
        "102 and M = 50, not be refused: factor of split of axis i of stage B must be a positive integer, not 0."),
}
# fmt: on


@pytest.mark.parametrize("name", CASES)
def test_the_message_is_whole(name):
    make, kind, message = CASES[name]
    with pytest.raises(kind, match=f"^{re.escape(message)}$"):
        make()
