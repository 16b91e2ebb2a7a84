"""Random programs of library operators: branches, both image layouts, matmuls of computed matrices, reshapes."""

from random_programs import Choice

from lathe.frontend import Tensor, placeholder
from lathe.frontend.operators import (
    add,
    avg_pool2d,
    bias_add,
    clip,
    conv2d,
    dense,
    flatten,
    matmul,
    max_pool2d,
    pad2d,
    relu,
    requantise,
    reshape,
)


class OperatorProgram:
    """Adds operators one by one, each of which reads earlier tensors; ``outputs`` are those without consumers."""

    def __init__(self, choice: Choice, operators: int) -> None:
        self.choice = choice
        self.layout = choice.pick(["NHWC", "NHWC", "NCHW"])
        self.count = 0
        self.made: list[Tensor] = [self.first()]
        self.read: set[Tensor] = set()
        for _ in range(operators):
            self.step()

    @property
    def outputs(self) -> list[Tensor]:
        computed = [tensor for tensor in self.made if tensor.computation is not None]
        return [tensor for tensor in computed if tensor not in self.read] or computed[-1:]

    def name(self, what: str) -> str:
        self.count += 1
        return f"{what}{self.count}"

    def input(self, shape: tuple[int, ...], dtype: str = "int8") -> Tensor:
        return placeholder(shape, dtype, self.name("in"))

    def first(self) -> Tensor:
        c = self.choice
        if c.number(0, 2) == 0:
            return self.input((c.number(1, 12), c.number(1, 30)))
        n, h, w, ch = c.pick([1, 1, 2, 3]), c.number(3, 9), c.number(3, 9), c.pick([1, 3, 4, 8, 17])
        return self.input((n, h, w, ch) if self.layout == "NHWC" else (n, ch, h, w))

    def step(self) -> None:
        source = self.choice.pick(self.made[-3:])
        kinds = {
            (2, "int8"): [self.product, self.product, self.square, self.product_of_two, self.pointwise, self.reshaped],
            (4, "int8"): [self.convolution] * 3 + [self.pool, self.padded, self.flat, self.pointwise, self.reshaped],
            (2, "int32"): [self.narrow] * 3 + [self.biased, self.pointwise],
            (4, "int32"): [self.narrow] * 3 + [self.biased, self.pointwise, self.pool],
        }
        operator = self.choice.pick(kinds[source.ndim, source.dtype])
        result, used = operator(source)
        self.read.update(used)
        self.made.append(result)

    def product(self, x: Tensor) -> tuple[Tensor, list[Tensor]]:
        columns = self.choice.number(1, 30)
        if self.choice.number(0, 1):
            return dense(x, self.input((columns, x.shape[1])), name=self.name("dense")), [x]
        if self.choice.number(0, 2):
            return matmul(x, self.input((x.shape[1], columns)), name=self.name("matmul")), [x]
        return matmul(self.input((columns, x.shape[0])), x, name=self.name("matmul")), [x]

    def square(self, x: Tensor) -> tuple[Tensor, list[Tensor]]:
        return matmul(x, x, transpose_b=True, name=self.name("square")), [x]

    def product_of_two(self, x: Tensor) -> tuple[Tensor, list[Tensor]]:
        for y in self.choice.shuffled(self.made):
            if y.ndim == 2 and y.dtype == "int8" and y is not x:
                if y.shape[0] == x.shape[1]:
                    return matmul(x, y, name=self.name("product")), [x, y]
                if y.shape[1] == x.shape[1]:
                    return matmul(x, y, transpose_b=True, name=self.name("product")), [x, y]
        return self.product(x)

    def pointwise(self, x: Tensor) -> tuple[Tensor, list[Tensor]]:
        alike = [y for y in self.made if y.shape == x.shape and y.dtype == x.dtype and y is not x]
        if alike and self.choice.number(0, 1):
            y = self.choice.pick(alike)
            return add(x, y, name=self.name("add")), [x, y]
        kind = self.choice.number(0, 2)
        if kind == 0:
            return relu(x, name=self.name("relu")), [x]
        if kind == 1:
            return clip(x, -20, 90, name=self.name("clip")), [x]
        return add(x, self.input(x.shape, x.dtype), name=self.name("add")), [x]

    def reshaped(self, x: Tensor) -> tuple[Tensor, list[Tensor]]:
        a, b = self.choice.shuffled(list(range(x.ndim)))[:2]
        a, b = min(a, b), max(a, b)
        shape = list(x.shape)
        step = self.choice.pick([d for d in range(1, shape[b] + 1) if shape[b] % d == 0])
        shape[a], shape[b] = shape[a] * step, shape[b] // step
        return reshape(x, tuple(shape), name=self.name("reshape")), [x]

    def flat(self, x: Tensor) -> tuple[Tensor, list[Tensor]]:
        return flatten(x, name=self.name("flat")), [x]

    def narrow(self, x: Tensor) -> tuple[Tensor, list[Tensor]]:
        return requantise(x, self.choice.number(0, 9), name=self.name("narrow")), [x]

    def biased(self, x: Tensor) -> tuple[Tensor, list[Tensor]]:
        axis = 1 if x.ndim == 4 and self.layout == "NCHW" else x.ndim - 1
        return bias_add(x, self.input((x.shape[axis],), "int32"), axis=axis, name=self.name("biased")), [x]

    def extents(self, x: Tensor) -> tuple[int, int, int]:
        return x.shape[1:] if self.layout == "NHWC" else (x.shape[2], x.shape[3], x.shape[1])  # type: ignore[return-value]

    def convolution(self, x: Tensor) -> tuple[Tensor, list[Tensor]]:
        c = self.choice
        h, w, channels = self.extents(x)
        groups = c.pick([g for g in (1, 1, 1, 2, 4, channels) if channels % g == 0])
        outputs = groups * c.number(1, 1 + 12 // groups)
        kernel = (c.number(1, min(3, h)), c.number(1, min(3, w)))
        pads = ((c.number(0, 2), c.number(0, 2)), (c.number(0, 2), c.number(0, 2)))
        taps = (outputs, *kernel, channels // groups)
        kernel_layout = "OHWI"
        if self.layout == "NCHW":
            taps, kernel_layout = (outputs, channels // groups, *kernel), "OIHW"
        made = conv2d(
            x,
            self.input(taps),
            stride=c.number(1, 2),
            padding=pads,
            pad_value=c.pick([0, 0, 0, -128, 127, 5]),
            groups=groups,
            layout=self.layout,
            kernel_layout=kernel_layout,
            name=self.name("conv"),
        )
        return made, [x]

    def pool(self, x: Tensor) -> tuple[Tensor, list[Tensor]]:
        c = self.choice
        h, w, _ = self.extents(x)
        window = c.pick([(h, w), (c.number(1, min(3, h)), c.number(1, min(3, w)))])
        kind = max_pool2d if x.dtype == "int32" or c.number(0, 1) else avg_pool2d
        padding = 1 if min(window) > 1 and c.number(0, 2) == 0 else 0
        return kind(
            x, window, stride=c.pick([None, 1, 2]), padding=padding, layout=self.layout, name=self.name("pool")
        ), [x]

    def padded(self, x: Tensor) -> tuple[Tensor, list[Tensor]]:
        value = self.choice.pick([0, 0, -128, 127, 5])
        return pad2d(x, self.choice.number(0, 2), value=value, layout=self.layout, name=self.name("padded")), [x]
