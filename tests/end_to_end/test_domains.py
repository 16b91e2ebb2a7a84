"""Non-rectangular domains in compiled programs: zeros where an output has no elements, the rest equal to NumPy."""

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
    """Rows that are read only inside a triangular domain."""
    return lt.compute((21, 20), lambda i, j: A[i - j, j], name="T", where=lambda i, j: j <= i)


def sums(i, j):
    return lt.sum(A[i, k].astype("int32") * B[j, k].astype("int32"), axis=k)


def product():
    return lt.compute((21, 20), sums, name="T", where=lambda i, j: j <= i)


def chain():
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
    """``x >= r``: the sum over the previous rows."""
    r = lt.reduce_axis(4, name="r")
    X = lt.placeholder((30, 16), "int8", name="X")
    return lt.compute((30, 16), lambda x, c: lt.sum(X[x - r, c].astype("int32"), axis=r, where=x >= r), name="T")


PROGRAMS = [triangle, rows, union, curve, outside_the_tensor, product, chain, largest, product_of_triangles, behind]


@pytest.mark.sample(6)
@pytest.mark.parametrize("machine", ["vta", "tiny"])
@pytest.mark.parametrize("program", PROGRAMS)
def test_a_domain_reaches_the_machine(program, machine):
    check_program(program(), SHIPPED[machine])


def in_tiles(s, T):
    s[T].tile("i", "j", 8, 16)


def backwards(s, T):
    s[T].reverse("j")


def along_diagonals(s, T):
    outer, _, _, _ = s[T].tile("i", "j", 16, 8)
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


@pytest.mark.parametrize("schedule", [in_tiles, backwards, along_diagonals, in_parts, by_hand])
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


X = lt.placeholder((21, 20), "int32", name="X")
Y = lt.placeholder((21, 20), "int32", name="Y")


def where_data_is_positive():
    return lt.compute((21, 20), lambda i, j: A[i, j], name="T", where=lambda i, j: A[i, j] > 0)


def triangle_by_data():
    return lt.compute((21, 20), lambda i, j: A[i, j], name="T", where=lambda i, j: (j <= i) & (A[i, j] % 4 != 1))


def larger_of_all_values():
    """All of int32, where a difference may overflow."""
    return lt.compute((21, 20), lambda i, j: lt.select(X[i, j] > Y[i, j], X[i, j], Y[i, j] >> 1), name="T")


def every_comparison():
    def body(i, j):
        x, y = A[i, j].astype("int32"), B[j, j].astype("int32")
        near = lt.select((x == y) | (x != 3), x * 2, y) + lt.select((x < y) & ~(x <= -y), x - y, 7)
        return near - lt.select((x >= 5) | (j + i > 12), y, x)

    return lt.compute((21, 20), body, name="T")


def against_an_index():
    def body(i, j):
        return lt.select(A[i, j].astype("int32") > (i * 3 - j).astype("int32"), A[i, j], -1)

    return lt.compute((21, 20), body, name="T")


def by_a_table():
    table = lt.placeholder((20,), "int8", name="table")
    return lt.compute((21, 20), lambda i, j: A[i, j], name="T", where=lambda _, j: table[j] > 10)


def sum_of_what_data_chooses():
    return lt.compute((21,), lambda i: lt.sum(A[i, k].astype("int32"), axis=k, where=A[i, k] > B[0, k]), name="T")


def numbers_from_indices():
    return lt.compute((21, 20), lambda i, j: A[i, j].astype("int32") * (i * j - 90).astype("int32"), name="T")


BY_DATA = [
    where_data_is_positive, triangle_by_data, larger_of_all_values, every_comparison, against_an_index, by_a_table,
    sum_of_what_data_chooses, numbers_from_indices,
]  # fmt: skip


@pytest.mark.sample(2)
@pytest.mark.parametrize("machine", ["vta", "tiny"])
@pytest.mark.parametrize("program", BY_DATA)
def test_conditions_on_data_are_computed(program, machine):
    check_program(program(), SHIPPED[machine])


def test_comparisons_of_numbers_far_apart():
    ends = np.array([-(2**31), -(2**31) + 1, -3, -1, 0, 1, 2, 2**31 - 2, 2**31 - 1], np.int32)
    x, y = np.meshgrid(ends, ends)
    one, other = lt.placeholder((9, 9), "int32", name="one"), lt.placeholder((9, 9), "int32", name="other")

    def body(i, j):
        a, b = one[i, j], other[i, j]

        def number(condition, value):
            return lt.select(condition, lt.const(value, "int32"), 0)

        return number(a > b, 1) + number(a >= b, 10) + number(a == b, 100) + number(a < b, 1000)

    T = lt.compute((9, 9), body, name="T")
    result = lt.simulate(lt.build(T, [one, other, T], SHIPPED["vta"]), {"one": x, "other": y})
    assert np.array_equal(result.outputs["T"], (x > y) + 10 * (x >= y) + 100 * (x == y) + 1000 * (x < y))


def test_a_triangle_costs_a_mask_and_a_product_with_one_stays_on_the_matrix_core():
    """Not an instruction per row, as peeling the condition would take."""
    whole = lt.compute((21, 20), lambda i, j: A[i, j].astype("int32") * 3, name="T")
    cut = lt.compute((21, 20), lambda i, j: A[i, j].astype("int32") * 3, name="T", where=lambda i, j: j <= i)
    plain, masked = (check_program(T, SHIPPED["vta"]).counters.alu_operations for T in (whole, cut))
    assert masked - plain == 20 * 2  # one multiplication of each vector of 16 rows
    result = check_program(product_of_triangles(), SHIPPED["vta"])
    assert result.counters.gemm_operations == 20 * 2 * 2  # columns, blocks of rows, blocks of the reduction


def test_a_copy_that_only_a_condition_on_data_reads_may_be_placed_by_hand():
    A, B = lt.placeholder((9,), "int32", name="A"), lt.placeholder((9,), "int8", name="B")
    T1 = lt.compute((9,), lambda i: A[i] + 5, "T1", where=lambda i: B[i] > 1)
    T2 = lt.compute((9,), lambda i: T1[i] + 4, "T2", where=lambda i: B[i] > 1)
    k = lt.reduce_axis(9, "k")
    T3 = lt.compute((1,), lambda _: lt.min(T2[k], axis=k, where=B[k] > 1), "T3")
    s = lt.create_schedule(T3)
    copy = s.cache_read(B, "acc", [T2])
    s[copy].compute_at(s[T2], "i")
    program = lt.build(s, [A, B, T3], SHIPPED["vta"])
    generator = np.random.default_rng(0)
    inputs = {"A": generator.integers(-99, 99, 9, np.int32), "B": generator.integers(-5, 6, 9, np.int8)}
    np.testing.assert_array_equal(lt.simulate(program, inputs).outputs["T3"], lt.reference(T3, inputs))
