"""Random tensor programs."""

from collections.abc import Sequence
from dataclasses import dataclass
from math import prod
from random import Random
from typing import Any

import numpy as np

from lathe.frontend import Expr, Tensor, compute, max, min, placeholder, placeholders, reduce_axis, select, sum

MOST_CELLS = 600
"""The maximum number of elements of a tensor, since some tests enumerate all instances."""


class Choice:
    """Random decisions from a seed. (Hypothesis gives seed and sizes; its own draws favour the smallest.)"""

    def __init__(self, seed: int) -> None:
        self.random = Random(seed)

    def pick(self, options: Sequence[Any]) -> Any:
        return self.random.choice(options)

    def number(self, low: int, high: int) -> int:
        return self.random.randint(low, high)

    def shuffled(self, items: Sequence[Any]) -> list[Any]:
        return self.random.sample(items, len(items))


def random_inputs(outputs: list[Tensor], seed: int) -> dict[str, Any]:
    generator = np.random.default_rng(seed)
    return {
        tensor.name: generator.integers(
            np.iinfo(tensor.dtype).min, np.iinfo(tensor.dtype).max, tensor.shape, tensor.dtype, endpoint=True
        )
        for tensor in placeholders(outputs)
    }


def wide(value: Expr) -> Expr:
    return value.astype("int32")


@dataclass
class Builder:
    """Adds computations one by one, each of which reads earlier tensors."""

    choice: Choice
    tensors: list[Tensor]
    count: int = 0

    def pick(self, options: list[Any]) -> Any:
        return self.choice.pick(options)

    def number(self, low: int, high: int) -> int:
        return self.choice.number(low, high)

    def made(self) -> list[Tensor]:
        return [tensor for tensor in self.tensors if tensor.computation is not None]

    def name(self) -> str:
        self.count += 1
        return f"T{self.count}"

    def input(self, shape: tuple[int, ...], dtype: str) -> Tensor:
        return placeholder(shape, dtype, f"in{len(self.tensors)}")

    def step(self) -> None:
        source = self.pick(self.tensors)
        made = self.pick(STEPS)(self, source)
        self.tensors.extend(made if isinstance(made, tuple) else (made,) if made is not None else ())


def elementwise(b: Builder, A: Tensor) -> Tensor:
    constant = b.number(-5, 40000)
    return b.pick(
        [
            lambda: compute(A.shape, lambda *i: wide(A[i]) + constant, b.name()),
            lambda: compute(A.shape, lambda *i: max(A[i], 3) - 1, b.name()),
            lambda: compute(A.shape, lambda *i: wide((A[i] >> 2).astype("int8")), b.name()),
        ]
    )()


def diamond(b: Builder, A: Tensor) -> Tensor:
    others = [T for T in b.tensors if T.shape == A.shape]
    B = b.pick(others)
    return compute(A.shape, lambda *i: wide(A[i]) * 3 - min(wide(B[i]), 100), b.name())


def stencil(b: Builder, A: Tensor) -> Tensor | None:
    dim = b.number(0, A.ndim - 1)
    stride, taps = b.number(1, 3), b.number(1, 3)
    extent = (A.shape[dim] - taps) // stride + 1
    if extent < 1:
        return None
    shape = tuple(extent if d == dim else size for d, size in enumerate(A.shape))

    def body(*i: Any) -> Any:
        def at(k: int) -> Any:
            return wide(A[tuple(index * stride + k if d == dim else index for d, index in enumerate(i))])

        total = at(0)
        for k in range(1, taps):
            total = total + at(k)
        return total

    return compute(shape, body, b.name())


def window(b: Builder, A: Tensor) -> Tensor | None:
    """A convolution or pooling over one or two dimensions, the window being reduction axes."""
    dims = b.number(1, A.ndim if A.ndim < 3 else 2)
    stride, start = b.number(1, 2), b.number(0, 1)
    ks = [reduce_axis((start, start + b.number(1, 3)), f"k{d}") for d in range(dims)]
    extents = [(A.shape[d] - ks[d].stop) // stride + 1 for d in range(dims)]
    if any(extent < 1 for extent in extents):
        return None
    kind = b.pick([sum, max, min])

    def body(*i: Any) -> Any:
        return kind(A[tuple(index * stride + ks[d] if d < dims else index for d, index in enumerate(i))], axis=ks)

    return compute((*extents, *A.shape[dims:]), body, b.name())


def convolution(b: Builder, A: Tensor) -> Tensor | None:
    """A sum over taps and channels with weights, with the padding of the data inside the read."""
    if A.ndim < 2:
        return None
    pad, taps, outputs = b.number(0, 2), b.number(1, 3), b.number(1, 4)
    extent = A.shape[0] + 2 * pad - taps + 1
    if extent < 1:
        return None
    W = b.input((outputs, taps, A.shape[-1]), "int8")
    k, c = reduce_axis(taps, "k"), reduce_axis(A.shape[-1], "c")
    b.tensors.append(W)

    def body(x: Any, *rest: Any) -> Any:
        *middle, o = rest
        at = x + k - pad
        value = select((at >= 0) & (at < A.shape[0]), A[(at, *middle, c)], 0)
        return sum(wide(value) * wide(W[o, k, c]), axis=[k, c])

    return compute((extent, *A.shape[1:-1], outputs), body, b.name())


def reduction(b: Builder, A: Tensor) -> Tensor:
    dim = b.number(0, A.ndim - 1)
    start = b.number(0, A.shape[dim] - 1)
    k = reduce_axis((start, A.shape[dim]), "k")
    kind = b.pick([sum, max, min])
    shape = tuple(size for d, size in enumerate(A.shape) if d != dim)

    def body(*i: Any) -> Any:
        outer = list(i) if shape else []
        return kind(A[(*outer[:dim], k, *outer[dim:])], axis=k)

    return compute(shape or (1,), body, b.name())


def product_of_matrices(b: Builder, A: Tensor) -> Tensor | None:
    if A.ndim != 2:
        return None
    B = b.input((b.number(1, 6), A.shape[1]), "int8")
    b.tensors.append(B)
    k = reduce_axis(A.shape[1], "k")
    return compute(
        (A.shape[0], B.shape[0]),
        lambda i, j: sum(wide(A[i, k]) * wide(B[j, k]), axis=k),
        b.name(),
    )


def padding(b: Builder, A: Tensor) -> Tensor:
    before, after = b.number(0, 3), b.number(0, 3)
    dim = b.number(0, A.ndim - 1)
    shape = tuple(size + (before + after if d == dim else 0) for d, size in enumerate(A.shape))
    size = A.shape[dim]

    def body(*i: Any) -> Any:
        at = i[dim] - before
        return select((at >= 0) & (at < size), A[tuple(at if d == dim else index for d, index in enumerate(i))], 0)

    return compute(shape, body, b.name())


def guarded(b: Builder, A: Tensor) -> Tensor:
    """A select on indices, one branch of which reads another row."""
    step = b.number(1, 3)

    def body(*i: Any) -> Any:
        return select(i[0] >= step, A[(i[0] - step, *i[1:])], A[(A.shape[0] - 1 - i[0], *i[1:])] + 1)

    return compute(A.shape, body, b.name())


def chosen_by_data(b: Builder, A: Tensor) -> Tensor:
    return compute(A.shape, lambda *i: select(A[i] > 0, A[i], A[(0, *i[1:])]), b.name())


def divided(b: Builder, A: Tensor) -> Tensor:
    """Dimensions split or fused by floor division and remainder, or elements repeated."""
    factor = b.number(2, 3)
    rest = A.shape[1:]
    forms = [lambda: compute((A.shape[0] * factor, *rest), lambda i, *r: A[(i // factor, *r)], b.name())]
    if A.ndim >= 2:
        joined = (A.shape[0] * A.shape[1], *A.shape[2:])
        forms.append(lambda: compute(joined, lambda i, *r: A[(i // A.shape[1], i % A.shape[1], *r)], b.name()))
    parts = -(-A.shape[0] // factor)
    forms.append(
        lambda: compute((parts, factor, *rest), lambda i, j, *r: A[(min(i * factor + j, A.shape[0] - 1), *r)], b.name())
    )
    forms.append(lambda: compute(A.shape, lambda i, *r: A[((i * 2 + 1) % A.shape[0], *r)], b.name()))
    return b.pick(forms)()


def turned(b: Builder, A: Tensor) -> Tensor:
    """The dimensions in reverse order, the last one backwards."""
    last = A.shape[-1] - 1
    return compute(A.shape[::-1], lambda *i: A[(*i[:0:-1], last - i[0])], b.name())


def several(b: Builder, A: Tensor) -> tuple[Tensor, ...]:
    return compute(A.shape, lambda *i: (A[i] + 1, A[(A.shape[0] - 1 - i[0], *i[1:])] * 2), b.name())


def spread(b: Builder, A: Tensor) -> Tensor:
    """Each value repeated along a new dimension."""
    return compute((*A.shape, b.number(1, 3)), lambda *i: wide(A[i[:-1]]) + wide(i[-1]), b.name())


STEPS = [
    elementwise,
    diamond,
    stencil,
    window,
    convolution,
    reduction,
    product_of_matrices,
    padding,
    guarded,
    chosen_by_data,
    divided,
    turned,
    several,
    spread,
]


def outputs_of(builder: Builder) -> list[Tensor]:
    """The last computed tensor, and perhaps another."""
    if not builder.made():
        builder.tensors.append(elementwise(builder, builder.tensors[0]))
    made, choice = builder.made(), builder.choice
    more = [choice.pick(made)] if choice.number(0, 3) == 0 else []
    return list(dict.fromkeys([made[-1], *more]))


def programs(choice: Choice, most: int) -> list[Tensor]:
    """The outputs of a program of up to ``most`` computations."""
    shape = tuple(choice.number(1, 7) for _ in range(choice.number(1, 3)))
    builder = Builder(choice, [])
    builder.tensors.append(builder.input(shape, choice.pick(["int8", "int32"])))
    for _ in range(2 * most):
        before = len(builder.tensors)
        builder.step()
        if any(prod(tensor.shape) > MOST_CELLS or tensor.ndim > 4 for tensor in builder.tensors[before:]):
            builder.tensors = builder.tensors[:before]
        if len(builder.made()) >= most:
            break
    return outputs_of(builder)
