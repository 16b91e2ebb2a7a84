"""Errors of invalid recurrences, with the names and values that their messages mention."""

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


def dependence_cycle_at_one_point():
    a = state((4, 4), name="a", init=0)
    b = compute((4, 4), lambda i, j: a[i, j] + 1, "b")
    define(a, lambda i, j: b[i, j] + a[i - 1, j])


def dependence_cycle_of_different_ranks():
    a = state((4, 4), name="a", init=0)
    b = compute(4, lambda i: a[i, 3], "b")
    define(a, lambda i, j: b[i] + 1)


# fmt: off
CASES = [
    Mistake("reads_itself", lambda: recurrence(8, lambda s, t: s[t] + 1, name="s"), CausalityError,
        ("s[t]", "'s'", "axes t", "s(t=0)", "s[0]", "at s(t=0)")),
    Mistake("reads_ahead",
        lambda: recurrence((8, 8), lambda s, i, j: s[i - 1, 7 - j] + s[i, (j + 1) % 8], init=0, name="s"),
        CausalityError, ("s[i, (j + 1) % 8]", "'s'", "axes i, j", "s(i=0, j=0)", "s[0, 1]", "at s(i=0, j=1)")),
    Mistake("index_from_data", lambda: recurrence(8, lambda s, t: s[(x[t] % 8).astype("index")], name="s"),
        CausalityError, ("s[index(x[t] % 8)]", "'s'", "axes t", "s(t=0)", "s[7]", "at s(t=7)")),
    Mistake("dependence_cycle_at_one_point", dependence_cycle_at_one_point, CausalityError,
        ("b[i, j]", "'a'", "axes i, j", "a(i=0, j=0)", "b[0, 0]", "at the same point", "a reads b, which reads a")),
    Mistake("dependence_cycle_of_different_ranks", dependence_cycle_of_different_ranks, CausalityError,
        ("b[i]", "'a'", "axes i", "a(i=0, j=0)", "b[0]", "at the same point", "a reads b, which reads a")),
    Mistake("not_defined", lambda: create_schedule(compute(8, lambda t: state(8, name="s")[t] + 1, "after")),
        TensorError, ("'s'", "define(s, ...)")),
    Mistake("not_defined_in_numpy", lambda: reference(compute(8, lambda t: state(8, name="s")[t] + 1, "after"), {}),
        TensorError, ("'s'", "define(s, ...)")),
    Mistake("defined_twice", defined_twice, TensorError, ("'s'", "already defined")),
    Mistake("define_of_an_input", lambda: define(x, lambda t: x[t]), TensorError, ("state()", "Tensor(x: int32[8])")),
    Mistake("define_of_states_of_two_shapes",
        lambda: define([state(8, name="a"), state(9, name="b")], lambda t: (1, 1)), TensorError,
        ("states of define", "shape", "Tensor(a: int32[8]), Tensor(b: int32[9])")),
    Mistake("too_few_expressions", lambda: recurrence(8, lambda a, b, t: a[t - 1] + b[t - 1], init=0, name=("a", "b")),
        TensorError, ("expressions", "a, b", 2, 1)),
    Mistake("expression_of_another_dtype", lambda: define(state(8, "int8", "s"), lambda t: x[t]), TensorError,
        ("'s'", "int8", "int32", "x.astype('int8')")),
    Mistake("init_of_another_shape", lambda: state((8, 4), name="s", init=first), TensorError,
        ("init", "'s'", "(4,)", "int32", "Tensor(first: int32[3])")),
    Mistake("init_of_text", lambda: state((8, 4), name="s", init="zero"), TensorError, ("init", "'s'", "'zero'")),
    Mistake("init_of_the_wrong_dimension",
        lambda: recurrence((8, 3), lambda s, t, n: s[t, n - 1] + 1, init=first, name="s"), TensorError,
        ("'s'", "'first'", "dimension 0", "dimension 1", "s[t, n - 1]", "function of the indices")),
    Mistake("inits_of_another_number",
        lambda: recurrence(8, lambda a, b, t: (a[t - 1], b[t - 1]), init=(0, 0, 0), name=("a", "b")), TensorError,
        ("init and dtype", "2 states", "(0, 0, 0)")),
    Mistake("no_function", lambda: recurrence(8, 3, name="s"), TensorError, ("recurrence s", "function", 3)),
]
# fmt: on


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_error(case):
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
