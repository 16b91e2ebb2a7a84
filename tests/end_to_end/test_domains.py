"""Domains that are no boxes down to instructions: zeros where an output has no elements, the rest equal to NumPy."""

import numpy as np
import pytest
from checking import check_program, random_array
from machines import SHIPPED

import lathe as lt
from lathe.frontend import placeholders

A = lt.placeholder((21, 20), "int8", name="A")
B = lt.placeholder((20, 20), "int8", name="B")
k = lt.reduce_axis(20, name="k")


def triangle():
    return lt.compute((21, 20), lambda i, j: A[i, j], name="T", where=lambda i, j: j <= i)


def rows():
    return lt.compute((21, 20), lambda i, j: A[i, j].astype("int32") * 3, name="T", where=lambda i, _: i >= 7)


def union():
    return lt.compute((21, 20), lambda i, j: A[i, j], name="T", where=lambda i, j: (j < 3) | (i + j > 30))


def curve():
    return lt.compute((21, 20), lambda i, j: A[i, j].astype("int32") + 1, name="T", where=lambda i, j: i * j < 90)


def outside_the_tensor():
    """Rows that only exist because the domain is a triangle."""
    return lt.compute((21, 20), lambda i, j: A[i - j, j], name="T", where=lambda i, j: j <= i)


def product():
    def sums(i, j):
        return lt.sum(A[i, k].astype("int32") * B[j, k].astype("int32"), axis=k)

    return lt.compute((21, 20), sums, name="T", where=lambda i, j: j <= i)


def chain():
    def sums(i, j):
        return lt.sum(A[i, k].astype("int32") * B[j, k].astype("int32"), axis=k)

    def lower(i, j):
        return j <= i

    C = lt.compute((21, 20), sums, name="C", where=lower)
    D = lt.compute((21, 20), lambda i, j: C[i, j] >> 3, name="D", where=lower)
    return lt.compute((21, 20), lambda i, j: lt.select(j <= i, D[i, j], -1), name="T")


def largest():
    return lt.compute((21,), lambda i: lt.max(A[i, k].astype("int32"), axis=k), name="T", where=lambda i: i % 3 == 0)


def product_of_triangles():
    def sums(i, j):
        return lt.sum(A[i, k].astype("int32") * B[j, k].astype("int32"), axis=k, where=(k <= i) & (k <= j))

    return lt.compute((21, 20), sums, name="T")


def behind():
    """``x >= r``: the sum over what has been before."""
    r = lt.reduce_axis(4, name="r")
    X = lt.placeholder((30, 16), "int8", name="X")
    return lt.compute((30, 16), lambda x, c: lt.sum(X[x - r, c].astype("int32"), axis=r, where=x >= r), name="T")


PROGRAMS = [triangle, rows, union, curve, outside_the_tensor, product, chain, largest, product_of_triangles, behind]


@pytest.mark.parametrize("machine", ["vta", "tiny"])
@pytest.mark.parametrize("program", PROGRAMS)
def test_a_domain_reaches_the_machine(program, machine):
    check_program(program(), SHIPPED[machine])


def in_tiles(s, T):
    s[T].tile("i", "j", 8, 16)


def backwards(s, T):
    s[T].reverse("i")


def along_diagonals(s, T):
    outer, _, _, _ = s[T].tile("i", "j", 8, 8)
    s[T].skew(outer, "jo")


def in_parts(s, T):
    s[T].split("k", 16)
    s[T].split("i", 5)


def by_hand(s, T):
    made = s.cache_write(T, "acc")
    row, _ = s[T].split("i", 8)
    s[made].compute_at(s[T], row)
    for source, scope in ((A, "inp"), (B, "wgt")):
        s[s.cache_read(source, scope, [made])].compute_at(s[T], row)


@pytest.mark.parametrize("schedule", [in_tiles, backwards, along_diagonals, in_parts])
def test_a_triangular_product_by_hand(schedule):
    T = product()
    s = lt.create_schedule(T)
    schedule(s, T)
    inputs = {tensor.name: random_array(tensor, np.random.default_rng(2)) for tensor in placeholders([T])}
    program = lt.build(s, [A, B, T], SHIPPED["vta"], check=True)
    assert lt.verify(program) == []
    result = lt.simulate(program, inputs)
    assert np.array_equal(result.outputs["T"], lt.reference(T, inputs))
    assert not np.triu(result.outputs["T"], 1).any()
