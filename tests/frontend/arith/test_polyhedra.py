"""Domains and access relations contain exactly the points and elements that enumeration finds."""

import islpy as isl
import pytest

from lathe.frontend import (
    access_of,
    compute,
    domain_of,
    evaluate,
    is_exact,
    min,
    placeholder,
    reduce_axis,
    select,
    shape_of,
    sum,
)
from lathe.frontend.arith.polyhedra import TooManyOperationsError, limited_operations, range_of

A = placeholder((6, 8), "int32", "A")


def points(what):
    """The integer tuples of a set, or of a wrapped map (domain and range joined)."""
    found = set()
    wrapped = what.wrap() if isinstance(what, isl.Map) else what
    flat = wrapped.flatten()
    count = flat.dim(isl.dim_type.set)

    def keep(point):
        found.add(tuple(point.get_coordinate_val(isl.dim_type.set, d).to_python() for d in range(count)))

    flat.foreach_point(keep)
    return found


def visited(computation, read):
    axes = (*computation.axes, *computation.reduce_axes)
    found = set()
    for point in points(domain_of(computation)):
        env = dict(zip(axes, point, strict=True))
        if all(bool(evaluate(condition, env)) == holds for condition, holds in read.guards):
            found.add((*point, *(int(evaluate(index, env)) for index in read.indices)))
    return found


def test_the_domain_is_the_box_of_data_and_reduction_axes_by_name():
    k = reduce_axis((2, 5), "k")
    C = compute((3, 2), lambda y, x: sum(A[y, x + k], axis=k), "conv.sum").computation
    domain = domain_of(C)
    assert domain.get_tuple_name() == "conv.sum"
    assert [domain.get_dim_name(isl.dim_type.set, d) for d in range(3)] == ["y", "x", "k"]
    assert points(domain) == {(y, x, k) for y in range(3) for x in range(2) for k in range(2, 5)}
    assert points(shape_of(A)) == {(y, x) for y in range(6) for x in range(8)}


def test_access_relations_hold_exactly_the_accesses_that_happen():
    k = reduce_axis((0, 3), "k")
    programs = [
        compute((4, 4), lambda y, x: sum(A[y + k, x * 2], axis=k), "C"),
        compute((8, 10), lambda y, x: select((y >= 1) & (y < 7) & (x >= 1) & (x < 9), A[y - 1, x - 1], 0), "C"),
        compute((8, 10), lambda y, x: select((y < 1) | (y > 6) | (x < 1) | (x > 8), 0, A[y - 1, x - 1]), "C"),
        compute((48,), lambda f: A[f // 8, f % 8], "C"),
        compute((6, 8), lambda y, x: A[y // -2 + 5, x % -3 + 7], "C"),
        compute((6, 8), lambda y, x: A[min(y, 5 - y), select(x > 3, 7 - x, x)], "C"),
        compute((6, 8), lambda y, x: select(y.astype("int8") * 2 < 7, A[y, x], A[5 - y, x]), "C"),
    ]
    for tensor in programs:
        for read in tensor.computation.reads:
            assert is_exact(tensor.computation, read)
            relation = access_of(tensor.computation, read)
            assert relation.get_tuple_name(isl.dim_type.in_) == "C"
            assert relation.get_tuple_name(isl.dim_type.out) == "A"
            assert points(relation) == visited(tensor.computation, read)


def test_relations_that_isl_cannot_express_are_over_approximated_and_inexact():
    C = compute((3, 2), lambda y, x: select(A[y, x] > 0, A[y * y, x], 0), "C").computation
    data, square = C.reads
    assert is_exact(C, data)
    assert not is_exact(C, square)
    covered = points(access_of(C, square))
    assert covered == {(y, x, row, x) for y in range(3) for x in range(2) for row in range(5)}
    assert {(y, x, y * y, x) for y in range(3) for x in range(2)} <= covered


@pytest.mark.parametrize(
    ("values", "ends"),
    [
        ("{ [i] -> [i - 3] : 0 <= i < 9 }", (-3, 5)),
        ("{ [i] -> [floor(i/4)*2] : 0 <= i < 9 }", (0, 4)),
        ("{ [i] -> [floor((4i+3)/7) - floor(4i/7)] : 0 <= i <= 26; [i] -> [7] : i = 30 }", (0, 7)),
    ],
)
def test_the_range_of_functions_with_divisions(values, ends):
    assert range_of(isl.PwAff(values)) == ends


def test_only_the_operations_limit_raises_its_error():
    one, other = (
        isl.Set("{ [i, j] : 0 <= i, j < 9 and (i + 2 j) mod 5 = 1 }"),
        isl.Set("{ [i, j] : (i + j) mod 7 = 3 }"),
    )
    with pytest.raises(TooManyOperationsError, match="maximal number of operations exceeded"), limited_operations(50):
        one.subtract(other).coalesce()
    with pytest.raises(isl.Error, match="spaces don't match"), limited_operations():  # a bug of the caller
        one.union(isl.Set("{ [i] }"))
    assert not one.subtract(other).is_empty()
