"""Stores of values wider than a byte preserve the accumulators if these are read again."""

# The parameters of these functions name axes, used or not.
# ruff: noqa: ARG005

import numpy as np
import pytest
from random_programs import random_inputs
from small_machine import run

from lathe.configs import load_config
from lathe.frontend import compute, placeholder, reduce_axis, sum
from lathe.frontend.operators import matmul
from lathe.scheduler import create_schedule

A = placeholder((4, 16), "int32", "A")
VALUES = {"A": np.random.default_rng(0).integers(-(2**31), 2**31, A.shape).astype(np.int32)}


@pytest.mark.parametrize("name", ["vta", "tiny"])
def test_what_is_stored_and_read_again(name):
    P = compute(A.shape, lambda i, j: A[i, j] + 1000, "P")
    stored = compute(A.shape, lambda i, j: P[i, j], "stored")
    doubled = compute(A.shape, lambda i, j: P[i, j] * 2, "doubled")
    s = create_schedule([stored, doubled])
    s[P].set_scope("acc")
    run(s, load_config(name), VALUES)


def test_what_is_stored_several_times():
    P = compute(16, lambda j: A[1, j] + 1000, "P")
    rows = compute((3, 16), lambda i, j: P[j], "rows")
    s = create_schedule(rows)
    s[P].set_scope("acc")
    run(s, load_config("vta"), VALUES)


def test_what_is_stored_twice():
    P = compute(A.shape, lambda i, j: A[i, j] * 3, "P")
    one = compute(A.shape, lambda i, j: P[i, j], "one")
    two = compute(A.shape, lambda i, j: P[3 - i, j], "two")
    s = create_schedule([one, two])
    s[P].set_scope("acc")
    run(s, load_config("vta"), VALUES)


@pytest.mark.parametrize("place", ["inside", "root"])
def test_what_is_stored_in_a_reduction_is_loaded_there(place):
    """A reduction reads a copy out of acc that its loop stores: a load outside the loop would precede the store."""
    P = compute(A.shape, lambda i, j: A[i, j] * 2 - 3, "P")
    turned = compute((16, 4), lambda j, i: P[i, j], "turned")
    k = reduce_axis(4, "k")
    total = compute(16, lambda j: sum(turned[j, k], axis=k), "total")
    s = create_schedule(total)
    s[P].set_scope("acc")
    if place == "inside":
        s[P].compute_at(s[turned], "i")
    s[turned].compute_at(s[total], k, "missing")
    run(s, load_config("tiny"), VALUES)


@pytest.mark.parametrize("name", ["vta", "tiny"])
def test_what_is_stored_in_loops_of_another_may_have_its_reduction_outermost(name):
    """Weights are loaded in loop i of the GEMM, inside a reduction loop that does not enclose the store."""
    data, weights = placeholder((3, 32), "int8", "data"), placeholder((20, 32), "int8", "weights")
    product = matmul(data, weights, transpose_b=True, name="product")
    doubled = compute(product.shape, lambda i, j: product[i, j] * 2, "doubled")
    s = create_schedule(doubled)
    s[product].compute_at(s[doubled], "i", "missing")
    ko, ki = s[product].split("k", 16)
    s[product].reorder(ko, "i", "j", ki)
    held = s.cache_read(weights, "wgt")
    s[held].compute_at(s[product], "i")
    run(s, load_config(name), random_inputs([doubled], seed=1))
