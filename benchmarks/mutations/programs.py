"""Twenty small programs with all features of compiled code: every instruction, buffers, pads, layouts, tails.

Each is built for `tiny` with `gemm_begin`, with the default schedule or a manual one.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from typing import Any

import numpy as np

import lathe as lt
from lathe.frontend import placeholders
from lathe.input_values import random_inputs
from lathe.scheduler.build import build_compiled
from lathe.scheduler.codegen.compiled_program import Compiled

CONFIG = lt.load_config("tiny").with_(extensions=("gemm_begin",))


@dataclass(frozen=True)
class Built:
    """A compiled program, its inputs, and its expected outputs."""

    name: str
    compiled: Compiled
    inputs: Mapping[str, Any]
    expected: Mapping[str, Any]

    @property
    def program(self) -> lt.Program:
        """The program to run."""
        return self.compiled.program


@dataclass(frozen=True)
class Recipe:
    """How to build a program: ``output`` creates its outputs, ``schedule`` schedules it (None: by default)."""

    name: str
    output: Callable[[], lt.Tensor | list[lt.Tensor]]
    schedule: Callable[[lt.Schedule, Any], None] | None = None
    config: lt.HardwareConfig = CONFIG

    def compile(self) -> tuple[Compiled, list[lt.Tensor]]:
        """Compile it, without running it; returns also its outputs."""
        made = self.output()
        outputs = made if isinstance(made, list) else [made]
        target: Any = outputs if self.schedule is None else lt.create_schedule(outputs)
        if self.schedule is not None:
            self.schedule(target, outputs)
        return build_compiled(target, [*placeholders(outputs), *outputs], self.config), outputs

    def build(self) -> Built:
        """Compile it, and compute its outputs for random inputs in NumPy."""
        compiled, outputs = self.compile()
        inputs = random_inputs(compiled.program, 0)
        values = lt.reference(outputs, inputs)
        expected = values if isinstance(values, dict) else {outputs[0].name: values}
        return Built(self.name, compiled, inputs, expected)


@lru_cache(maxsize=1)
def programs() -> tuple[Built, ...]:
    """All programs, built once."""
    return tuple(recipe.build() for recipe in RECIPES)


def product(rows: int, inner: int, columns: int, shift: int = 0) -> Callable[[], lt.Tensor]:
    def made() -> lt.Tensor:
        A, B = lt.placeholder((rows, inner), "int8", name="A"), lt.placeholder((columns, inner), "int8", name="B")
        C = lt.matmul(A, B, transpose_b=True, name="C")
        return lt.requantise(C, shift, name="D") if shift else C

    return made


def convolution(height: int, width: int, channels: int, outputs: int, **parameters: Any) -> Callable[[], lt.Tensor]:
    def made() -> lt.Tensor:
        data = lt.placeholder((1, height, width, channels), "int8", name="data")
        weight = lt.placeholder((outputs, 3, 3, channels), "int8", name="weight")
        return lt.requantise(lt.conv2d(data, weight, name="conv", **parameters), 7, name="q")

    return made


def pointwise(function: Callable[..., Any], *dtypes: str, shape: tuple[int, ...] = (3, 13)) -> Callable[[], lt.Tensor]:
    def made() -> lt.Tensor:
        inputs = [lt.placeholder(shape, dtype, name=letter) for letter, dtype in zip("ABC", dtypes, strict=False)]
        return lt.compute(shape, lambda *i: function(*(tensor[i] for tensor in inputs)), "R")

    return made


def layer() -> lt.Tensor:
    image = lt.placeholder((1, 7, 6, 8), "int8", name="image")
    kernel, bias = lt.placeholder((12, 3, 3, 8), "int8", name="K"), lt.placeholder((12,), "int32", name="bias")
    sums = lt.bias_add(lt.conv2d(image, kernel, padding=1, name="conv"), bias, name="biased")
    return lt.max_pool2d(lt.requantise(lt.relu(sums), 8, name="q"), 2, name="pool")


def dense() -> lt.Tensor:
    data, weight = lt.placeholder((5, 14), "int8", name="data"), lt.placeholder((9, 14), "int8", name="weight")
    return lt.requantise(lt.dense(data, weight, lt.placeholder((9,), "int32", name="b"), name="out"), 6, name="q")


def two_layers() -> lt.Tensor:
    A, B = lt.placeholder((6, 10), "int8", name="A"), lt.placeholder((7, 10), "int8", name="B")
    hidden = lt.requantise(lt.relu(lt.matmul(A, B, transpose_b=True, name="P")), 6, name="H")
    return lt.requantise(
        lt.matmul(hidden, lt.placeholder((5, 7), "int8", name="W"), transpose_b=True, name="Q"), 5, name="R"
    )


def two_outputs() -> list[lt.Tensor]:
    A = lt.placeholder((4, 9), "int8", name="A")
    B = lt.compute(A.shape, lambda i, j: A[i, j].astype("int32") * 3 + 7, "B")
    return [B, lt.compute(A.shape, lambda i, j: lt.max(B[i, j], 0), "C")]


def blur() -> lt.Tensor:
    A = lt.placeholder((5, 6, 4), "int8", name="A")
    r, c = lt.reduce_axis((0, 3), name="r"), lt.reduce_axis((0, 3), name="c")
    return lt.compute((3, 4, 4), lambda y, x, k: lt.sum(A[y + r, x + c, k].astype("int32"), axis=[r, c]), name="B")


def tiles(buffers: int = 2, threads: int = 0) -> Callable[[lt.Schedule, Any], None]:
    """A matmul with tiled columns and a tiled reduction, with multi-buffering or virtual threads."""

    def schedule(s: lt.Schedule, outputs: Any) -> None:
        (D,) = outputs
        C = D.computation.reads[0].tensor
        A, B = (read.tensor for read in C.computation.reads)
        made = s.cache_write(D, "acc")
        rows, columns = s.cache_read(A, "inp", [C]), s.cache_read(B, "wgt", [C])
        y, x = s[D].axis
        tile, inner = s[D].split(x, factor=8)
        s[D].reorder(tile, y, inner)
        s[C].set_scope("acc")
        for tensor in (made, C):
            s[tensor].compute_at(s[D], tile)
        part, k = s[C].split("k", factor=4)
        s[C].reorder(part, *s[C].axis, k)
        for tensor in (rows, columns):
            s[tensor].compute_at(s[C], part)
            s[tensor].double_buffer(buffers)
        if threads:
            s[D].vthread(tile, threads)

    return schedule


def rings(s: lt.Schedule, outputs: Any) -> None:
    """A line buffer, and a sliding window that is filled from it."""
    (B,) = outputs
    s[s.cache_write(B, "acc")].compute_at(s[B], "x")
    lines = s.reuse_at(B.computation.reads[0].tensor, s[B], "y")
    s.reuse_at(lines, s[B], "x")


RECIPES = (
    Recipe("product", product(9, 30, 19)),
    Recipe("product of one row", product(1, 12, 5, shift=6)),
    Recipe("product of blocks", product(8, 16, 12, shift=7)),
    Recipe("product in tiles", product(6, 20, 24, shift=6), tiles()),
    Recipe("product with three buffers", product(6, 20, 24, shift=6), tiles(3)),
    Recipe("product in threads", product(6, 20, 24, shift=6), tiles(1, 2)),
    Recipe("convolution", convolution(7, 6, 8, 8)),
    Recipe("convolution with padding", convolution(6, 5, 5, 7, padding=1)),
    Recipe("convolution with stride", convolution(9, 8, 4, 4, stride=2, padding=1)),
    Recipe("layer", layer),
    Recipe("dense", dense),
    Recipe("two layers", two_layers),
    Recipe("sum of int32", pointwise(lambda a, b: a + b, "int32", "int32")),
    Recipe("product of int32", pointwise(lambda a, b: a * b - 5, "int32", "int32")),
    Recipe("shifts", pointwise(lambda a: (a >> 3) + (a << 2), "int32")),
    Recipe(
        "clipped",
        pointwise(lambda a, b: lt.min(lt.max(a.astype("int32") * b.astype("int32"), -90), 90), "int8", "int8"),
    ),
    Recipe("large numbers", pointwise(lambda a: lt.max(a * 100000, -40000) + 70000, "int32")),
    Recipe("two outputs", two_outputs),
    Recipe("blur", blur),
    Recipe("blur in rings", blur, rings),
)

assert len(RECIPES) == 20


def outputs_equal(built: Built, outputs: Mapping[str, Any]) -> bool:
    """Whether the outputs equal NumPy's."""
    return all(np.array_equal(outputs[name], value) for name, value in built.expected.items())
