"""Every mistake in a recurrence, by the whole message."""

# The parameters of these functions name axes, used or not.
# ruff: noqa: ARG005

import pytest
from mistaken_programs import Mistake, check_message

from lathe.frontend import (
    CausalityError,
    TensorError,
    compute,
    define,
    placeholder,
    recurrence,
    reference,
    state,
)
from lathe.scheduler import create_schedule

x = placeholder((8,), "int32", "x")
first = placeholder((3,), "int32", "first")


def defined_twice():
    s = state(8, name="s", init=0)
    define(s, lambda t: s[t - 1] + 1)
    define(s, lambda t: s[t - 1] + 2)


def circle_at_one_point():
    a = state((4, 4), name="a", init=0)
    b = compute((4, 4), lambda i, j: a[i, j] + 1, "b")
    define(a, lambda i, j: b[i, j] + a[i - 1, j])


def circle_of_different_lengths():
    a = state((4, 4), name="a", init=0)
    b = compute(4, lambda i: a[i, 3], "b")
    define(a, lambda i, j: b[i] + 1)


# fmt: off
CASES = [
    Mistake("reads_itself", lambda: recurrence(8, lambda s, t: s[t] + 1, name="s"), CausalityError,
        "read s[t] of computation 's' must be of a cell that an earlier point makes, in the order of axes t, not at "
        "s(t=0) of s[0], which is made no earlier, at s(t=0). Read an earlier cell, or declare the axes in another "
        "order."),
    Mistake("reads_ahead",
        lambda: recurrence((8, 8), lambda s, i, j: s[i - 1, 7 - j] + s[i, (j + 1) % 8], init=0, name="s"),
        CausalityError,
        "read s[i, (j + 1) % 8] of computation 's' must be of a cell that an earlier point makes, in the order of "
        "axes i, j, not at s(i=0, j=0) of s[0, 1], which is made no earlier, at s(i=0, j=1). Read an earlier cell, "
        "or declare the axes in another order."),
    Mistake("index_from_data", lambda: recurrence(8, lambda s, t: s[(x[t] % 8).astype("index")], name="s"),
        CausalityError,
        "read s[index(x[t] % 8)] of computation 's' must be of a cell that an earlier point makes, in the order of "
        "axes t, not at s(t=0) of s[7], which is made no earlier, at s(t=7). Read an earlier cell, or declare the "
        "axes in another order."),
    Mistake("circle_at_one_point", circle_at_one_point, CausalityError,
        "read b[i, j] of computation 'a' must be of a cell that an earlier point makes, in the order of axes i, j, "
        "not at a(i=0, j=0) of b[0, 0], which is made at the same point by what reads it: a reads b, which reads a. "
        "Read an earlier cell, or declare the axes in another order."),
    Mistake("circle_of_different_lengths", circle_of_different_lengths, CausalityError,
        "read b[i] of computation 'a' must be of a cell that an earlier point makes, in the order of axes i, not at "
        "a(i=0, j=0) of b[0], which is made at the same point by what reads it: a reads b, which reads a. Read an "
        "earlier cell, or declare the axes in another order."),
    Mistake("not_defined", lambda: create_schedule(compute(8, lambda t: state(8, name="s")[t] + 1, "after")),
        TensorError,
        "state 's' must be defined before a program can use it. Say how it is computed with define(s, ...)."),
    Mistake("not_defined_in_numpy", lambda: reference(compute(8, lambda t: state(8, name="s")[t] + 1, "after"), {}),
        TensorError,
        "state 's' must be defined before a program can use it. Say how it is computed with define(s, ...)."),
    Mistake("defined_twice", defined_twice, TensorError,
        "state 's' must be defined once, not again. Declare another state."),
    Mistake("define_of_an_input", lambda: define(x, lambda t: x[t]), TensorError,
        "state of define must be what state() returned, not Tensor(x: int32[8])."),
    Mistake("define_of_states_of_two_shapes",
        lambda: define([state(8, name="a"), state(9, name="b")], lambda t: (1, 1)), TensorError,
        "states of define must be one, or several different ones of one shape, not Tensor(a: int32[8]), Tensor(b: "
        "int32[9])."),
    Mistake("too_few_expressions", lambda: recurrence(8, lambda a, b, t: a[t - 1] + b[t - 1], init=0, name=("a", "b")),
        TensorError, "expressions of state a, b must be 2, one for each, not 1."),
    Mistake("expression_of_another_dtype", lambda: define(state(8, "int8", "s"), lambda t: x[t]), TensorError,
        "expression of state 's' must have the dtype that the state was declared with, int8, not int32. Convert it, "
        "as in x.astype('int8')."),
    Mistake("init_of_another_shape", lambda: state((8, 4), name="s", init=first), TensorError,
        "init of state 's' must be a tensor of shape (4,) and dtype int32, which stands before its first elements, "
        "not Tensor(first: int32[3]). Give a function of the indices where that does not say it."),
    Mistake("init_of_text", lambda: state((8, 4), name="s", init="zero"), TensorError,
        "init of state 's' must be an integer, a tensor, a function of the indices or None, not 'zero'."),
    Mistake("init_of_the_wrong_dimension",
        lambda: recurrence((8, 3), lambda s, t, n: s[t, n - 1] + 1, init=first, name="s"), TensorError,
        "index of state 's' must not be below 0 but in its first dimension, where tensor 'first' says what was "
        "before, not in dimension 1: s[t, n - 1]. Give init as a function of the indices."),
    Mistake("inits_of_another_number",
        lambda: recurrence(8, lambda a, b, t: (a[t - 1], b[t - 1]), init=(0, 0, 0), name=("a", "b")), TensorError,
        "init and dtype of recurrence must be given for each of 2 states, or once for all, not (0, 0, 0)."),
    Mistake("no_function", lambda: recurrence(8, 3, name="s"), TensorError,
        "expression of recurrence s must be given as a function of its states and axes, not 3."),
]
# fmt: on


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_message(case):
    check_message(case)


def test_a_refused_definition_leaves_the_state_open():
    s = state(8, name="s", init=0)
    with pytest.raises(CausalityError) as caught:
        define(s, lambda t: s[t] + 1)
    assert caught.value.reader == ("s", (0,))
    assert caught.value.cell == ("s", (0,))
    assert s.computation is None
    define(s, lambda t: s[t - 1] + 1)
    assert reference(s, {}).tolist() == [1, 2, 3, 4, 5, 6, 7, 8]
