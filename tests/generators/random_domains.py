"""Random programs with non-rectangular domains: triangles, bands, stripes, non-affine and data-dependent conditions."""

from collections.abc import Callable
from math import prod
from typing import Any

from random_programs import MOST_CELLS, Builder, Choice, elementwise, outputs_of, wide

from lathe.frontend import (
    Expr,
    Tensor,
    TensorError,
    compute,
    const,
    max,
    min,
    reads_data,
    reduce_axis,
    select,
    substitute,
    sum,
)
from lathe.frontend.expr.nodes import Axis, AxisRef

Condition = Callable[..., Expr]


def existing(A: Tensor) -> Condition | None:
    """The condition under which a tensor has an element, as a function of its indices; None if it always has."""
    computation = A.computation
    if computation is None or computation.where is None:
        return None
    where = computation.where
    axes: tuple[Axis, ...] = computation.axes
    return lambda *i: substitute(where, {axis: index + 0 for axis, index in zip(axes, i, strict=True)})


def condition(b: Builder, A: Tensor) -> Condition:
    """A condition on the indices of a tensor; sometimes also on values of an input of its shape."""
    first, last = b.number(0, A.ndim - 1), b.number(0, A.ndim - 1)
    c, d = b.number(0, 4), b.number(1, 3)

    def x(i: Any) -> Any:
        return i[first] + 0

    def y(i: Any) -> Any:
        return i[last] + 0

    forms: list[Condition] = [
        lambda *i: x(i) <= y(i) + c,
        lambda *i: x(i) * d >= y(i),
        lambda *i: x(i) >= c,
        lambda *i: (x(i) - y(i) <= c) & (y(i) - x(i) <= d),
        lambda *i: (x(i) < d) | (y(i) > c),
        lambda *i: (x(i) + y(i)) % (d + 1) == 0,
        lambda *i: x(i) // d <= y(i) // 2,
        lambda *i: x(i) != y(i) + d,
        lambda *i: ~((x(i) == c) | (y(i) == d)),
        lambda *i: max(x(i), y(i)) >= d,
        lambda *i: x(i) * y(i) < 4 + c,
        lambda *i: (x(i) * y(i) > c) & (x(i) >= y(i)),
    ]
    inputs = [T for T in b.tensors if T.computation is None and T.shape == A.shape]
    if inputs:
        M = b.pick(inputs)
        forms.append(lambda *i: wide(M[i]) > c)
        forms.append(lambda *i: (x(i) >= y(i)) & (wide(M[i]) < 40))
    return b.pick(forms)


def both(one: Condition | None, other: Condition) -> Condition:
    return other if one is None else lambda *i: one(*i) & other(*i)


def restricted(b: Builder, A: Tensor) -> Tensor:
    """A tensor with fewer elements than the one that it reads."""
    constant = b.number(-5, 5)
    where = both(existing(A), condition(b, A))
    return compute(A.shape, lambda *i: wide(A[i]) + constant, b.name(), where=where)


def alike(b: Builder, A: Tensor) -> Tensor:
    """A tensor with elements at the same points."""
    return compute(A.shape, lambda *i: max(wide(A[i]) * 3, -7), b.name(), where=existing(A))


def whole(b: Builder, A: Tensor) -> Tensor:
    """A tensor with all elements, and a constant where the other tensor has none."""
    exists = existing(A)
    if exists is None:
        return elementwise(b, A)
    return compute(A.shape, lambda *i: select(exists(*i), wide(A[i]), b.number(-3, 3)), b.name())


def reduced(b: Builder, A: Tensor) -> Tensor:
    """A reduction over all or some of the existing elements of a row."""
    exists, also = existing(A), condition(b, A)
    k = reduce_axis(A.shape[-1], "k")
    kind = b.pick([sum, max, min])

    def body(*i: Any) -> Any:
        outer = list(i) if A.ndim > 1 else []
        point = (*outer, AxisRef(k))
        return kind(wide(A[point]), axis=k, where=both(exists, also)(*point))

    where = None
    if A.ndim > 1 and b.number(0, 1):
        row = b.number(0, A.shape[0] - 1)
        where = lambda *i: i[0] + 0 >= row  # noqa: E731
    return compute(A.shape[:-1] or (1,), body, b.name(), where=where)


def shifted(b: Builder, A: Tensor) -> Tensor:
    """A neighbouring element, if it exists: the read has the producer's condition at the shifted index."""
    exists = existing(A)
    if exists is not None and A.computation is not None and reads_data(A.computation.where):
        return alike(b, A)  # the condition itself would read outside of the tensor
    dim, step = b.number(0, A.ndim - 1), b.number(1, 2)
    size = A.shape[dim]

    def at(i: Any) -> Any:
        return tuple(index - step if d == dim else index + 0 for d, index in enumerate(i))

    def inside(i: Any) -> Any:
        inside = at(i)[dim] >= 0
        return inside if exists is None else inside & exists(*at(i))

    if size > step and b.number(0, 1):
        try:
            return compute(A.shape, lambda *i: wide(A[at(i)]) - 1, b.name(), where=lambda *i: inside(i))
        except TensorError:  # the condition is false everywhere
            return whole(b, A)
    return compute(A.shape, lambda *i: select(inside(i), wide(A[at(i)]), const(9, "int32")), b.name())


def chosen(b: Builder, A: Tensor) -> Tensor:
    """One of two values, by a condition on indices, on data, or on both, with all kinds of comparisons."""
    full = [T for T in b.tensors if T.shape == A.shape and existing(T) is None]
    if not full:
        return alike(b, A)
    number, read = b.number(-130, 130), [b.pick(full), b.pick(full)]

    def values(i: Any) -> list[Expr]:
        return [*(wide(T[i]) for T in read), const(number, "int32"), wide(i[0] * 3)]

    forms: list[Condition] = [
        lambda *i: values(i)[0] > values(i)[-1],
        lambda *i: values(i)[0] <= values(i)[1],
        lambda *i: ~(values(i)[-2] == values(i)[0]) | (i[-1] + 0 < 2),
        lambda *i: (values(i)[0] != number) & (values(i)[0] < values(i)[1]) & (i[-1] + 0 >= i[0]),
        lambda *i: values(i)[0] // 4 >= values(i)[1] >> 3,
    ]
    decides, first, second = b.pick(forms), b.number(0, 3), b.number(0, 3)

    def body(*i: Any) -> Any:
        offered = values(i)
        return select(decides(*i), offered[first % len(offered)], offered[second % len(offered)])

    return compute(A.shape, body, b.name())


STEPS = [chosen, chosen, restricted, restricted, restricted, alike, whole, reduced, reduced, shifted, shifted]


def programs_with_domains(choice: Choice, most: int) -> list[Tensor]:
    """The outputs of a program of up to ``most`` computations, most of which have conditional domains."""
    shape = tuple(choice.number(2, 7) for _ in range(choice.number(1, 3)))
    builder = Builder(choice, [])
    for _ in range(choice.number(1, 2)):
        builder.tensors.append(builder.input(shape, choice.pick(["int8", "int32"])))
    for _ in range(3 * most):
        source = choice.pick(builder.tensors)
        try:
            made = choice.pick(STEPS)(builder, source)
        except TensorError:  # a domain without points
            continue
        if prod(made.shape) <= MOST_CELLS:
            builder.tensors.append(made)
        if len(builder.made()) >= most:
            break
    return outputs_of(builder)
