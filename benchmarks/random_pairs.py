"""Random programs and machines for `distance_to_bound.py`, and the minimum DRAM traffic of tiled layers."""

from dataclasses import dataclass, field
from math import ceil, inf, prod
from random import Random
from typing import TypeAlias

import lathe as lt

Images: TypeAlias = tuple[int, int, int, int]
"""Images, rows, columns, channels."""


@dataclass(frozen=True)
class Layer:
    """The shapes of a layer: images (n, y, x, c), and weights of taps × channels × filters.

    ``window``: rows and columns of data for an element of the result; ``step``: the strides of windows.
    """

    data: Images
    result: Images
    window: tuple[int, int] = (1, 1)
    step: tuple[int, int] = (1, 1)
    taps: int = 1
    channels: int = 0  # of the data, for one filter; 0: no weights
    operands: int = 1


def image(tensor: lt.Tensor) -> Images:
    """The shape of a tensor of images."""
    images, height, width, channels = tensor.shape
    return images, height, width, channels


@dataclass
class Program:
    """A program under construction: ``last`` is the input of the next layer."""

    random: Random
    last: lt.Tensor
    layers: list[Layer] = field(default_factory=list)
    what: list[str] = field(default_factory=list)

    def name(self, what: str) -> str:
        return f"{what}{len(self.layers)}"

    def to_bytes(self, sums: lt.Tensor, layer: Layer, what: str) -> None:
        """Requantise sums to int8, with or without ReLU."""
        name = self.name("quantised")
        low = self.random.choice([0, -128])
        self.last = lt.requantise(sums, self.random.randint(4, 9), low=low, name=name)
        self.layers.append(layer)
        self.what.append(what)


def program(random: Random) -> Program:
    """A random program of one to four layers."""
    if random.random() < 0.15:
        shape: tuple[int, ...] = (random.choice([1, 1, 2, 8, random.randint(1, 300)]), random.randint(16, 600))
    else:
        images = random.choice([1, 1, 1, 2, 3, 4, 8])
        size = random.choice([5, 7, 9, 13, 14, 19, 28, 31, 40, 56])
        channels = random.choice([3, 8, 12, 16, 17, 24, 32, 40, 48, 64, 96, 100, 128])
        shape = (images, size, max(size + random.choice([0, 0, -2, 3]), 3), channels)
    made = Program(random, lt.placeholder(shape, "int8", name="data"))
    for _ in range(random.choice([1, 1, 1, 2, 2, 3, 4])):
        if len(shape) == 2:
            _matmul(made)
        else:
            kinds = [_convolution] * 5 + [_residual] * 2 + [_depthwise, _transposed, _elementwise]
            random.choice(kinds + [_pool] * (min(made.last.shape[1:3]) > 1))(made)
    return made


def _matmul(made: Program) -> None:
    rows, inner = made.last.shape
    columns = made.random.randint(8, 512)
    weights = lt.placeholder((columns, inner), "int8", name=made.name("weights"))
    layer = Layer((rows, 1, 1, inner), (rows, 1, 1, columns), channels=inner)
    made.to_bytes(lt.dense(made.last, weights, name=made.name("dense")), layer, "product")


def _convolution(made: Program) -> None:
    random, (_, height, width, channels) = made.random, made.last.shape
    kernel = random.choice([k for k in (1, 1, 3, 3, 3, 5, 7) if k <= min(height, width)])
    stride = random.choice([1, 1, 1, 2, 3]) if min(height, width) > kernel else 1
    dilation = random.choice([1, 1, 1, 2]) if 2 * kernel - 1 <= min(height, width) else 1
    groups = random.choice([1, 1, 1, 1, *(g for g in (2, 4) if channels % g == 0)])
    filters = groups * random.choice([4, 8, 10, 16, 24, 32, 48, 64, 96, 128])
    padding = random.choice([0, kernel // 2 * dilation])
    weights = lt.placeholder((filters, kernel, kernel, channels // groups), "int8", name=made.name("weights"))
    sums = lt.conv2d(
        made.last, weights, stride=stride, padding=padding, dilation=dilation, groups=groups, name=made.name("conv")
    )
    reach = (kernel - 1) * dilation + 1
    layer = Layer(
        image(made.last),
        image(sums),
        (reach, reach),
        (stride, stride),
        kernel**2,
        channels // groups,
    )
    what = f"{kernel}×{kernel}" + (f"/{stride}" if stride > 1 else "") + (" dilated" if dilation > 1 else "")
    made.to_bytes(sums, layer, what + (f" in {groups} groups" if groups > 1 else ""))


def _residual(made: Program) -> None:
    random, (*_, channels) = made.random, made.last.shape
    before = made.last
    kernel = random.choice([1, 3]) if min(before.shape[1:3]) >= 3 else 1
    weights = lt.placeholder((channels, kernel, kernel, channels), "int8", name=made.name("weights"))
    sums = lt.conv2d(before, weights, padding=kernel // 2, name=made.name("conv"))
    layer = Layer(image(before), image(sums), (kernel, kernel), (1, 1), kernel**2, channels, operands=2)
    quantised = lt.requantise(sums, 7, name=made.name("branch"))
    made.last = lt.relu(lt.add(quantised, before, name=made.name("added")), name=made.name("sum"))
    if made.last.dtype != "int8":
        made.last = lt.requantise(made.last, 1, name=made.name("narrowed"))
    made.layers.append(layer)
    made.what.append(f"{kernel}×{kernel} and shortcut")


def _depthwise(made: Program) -> None:
    random, (_, height, width, channels) = made.random, made.last.shape
    kernel = 3 if min(height, width) >= 3 else 1
    weights = lt.placeholder((kernel, kernel, channels), "int8", name=made.name("weights"))
    stride = random.choice([1, 1, 2])
    sums = lt.depthwise_conv2d(made.last, weights, stride=stride, padding=kernel // 2, name=made.name("depthwise"))
    layer = Layer(image(made.last), image(sums), (kernel, kernel), (stride, stride), kernel**2, 0)
    made.to_bytes(sums, layer, f"depthwise {kernel}×{kernel}" + (f"/{stride}" if stride > 1 else ""))


def _transposed(made: Program) -> None:
    """A transposed convolution: zeros between pixels, then a convolution."""
    data, (images, height, width, channels) = made.last, made.last.shape
    filters = made.random.choice([8, 16, 24, 32])
    spread = lt.compute(
        (images, 2 * height + 1, 2 * width + 1, channels),
        lambda n, y, x, c: lt.select((y % 2 == 1) & (x % 2 == 1), data[n, y // 2, x // 2, c], 0),
        name=made.name("spread"),
    )
    weights = lt.placeholder((filters, 3, 3, channels), "int8", name=made.name("weights"))
    sums = lt.conv2d(spread, weights, name=made.name("conv"))
    layer = Layer(image(data), image(sums), (2, 2), (1, 1), 9, channels)
    made.to_bytes(sums, layer, "transposed 3×3/2")


def _pool(made: Program) -> None:
    random, (_, height, width, _) = made.random, made.last.shape
    window = random.choice([w for w in (2, 3) if w <= min(height, width)])
    stride = random.choice([1, 2, window])
    name = made.name("pool")
    if random.random() < 0.7:
        made.last = lt.max_pool2d(made.last, window, stride=stride, name=name)
        what = f"maximum of {window}×{window}/{stride}"
    else:
        made.last = lt.avg_pool2d(made.last, window, stride=stride, name=name)
        what = f"average of {window}×{window}/{stride}"
    before = (made.last.shape[0], height, width, made.last.shape[3])
    made.layers.append(Layer(before, image(made.last), (window, window), (stride, stride)))
    made.what.append(what)


def _elementwise(made: Program) -> None:
    other = lt.placeholder(made.last.shape, "int8", name=made.name("other"))
    layer = Layer(image(made.last), image(made.last), operands=2)
    made.to_bytes(lt.add(made.last, other, name=made.name("added")), layer, "addition")


def machine(random: Random) -> lt.HardwareConfig:
    """A valid random machine."""
    while True:
        batch = random.choice([1, 1, 2, 4])
        block_in, block_out = random.choice([4, 8, 16, 16, 32]), random.choice([4, 8, 16, 16, 32])
        try:
            return lt.load_config("vta").with_(
                name="random",
                batch=batch,
                block_in=block_in,
                block_out=block_out,
                inp_buffer_bytes=batch * block_in * random.choice([256, 512, 1024, 2048, 4096]),
                wgt_buffer_bytes=block_in * block_out * random.choice([64, 128, 256, 512, 1024, 2048]),
                acc_buffer_bytes=batch * block_out * 4 * random.choice([256, 512, 1024, 2048]),
                uop_buffer_bytes=random.choice([4096, 8192, 32768]),
                **{
                    "memory.bus_bits": random.choice([64, 128, 256, 512]),
                    "memory.latency": random.choice([0, 8, 32, 64, 100, 200]),
                },
            )
        except lt.ConfigError:
            continue


def least_moved(layers: list[Layer], config: lt.HardwareConfig) -> float:
    """DRAM traffic of the layers in bytes, each with the best tiling into half of each scratchpad.

    Tiles are rows and columns of pixels and blocks of filters. All channels of a tile are in ``inp``, or the reduction
    is tiled. Either the data of a tile are stationary and all weights are streamed, or vice versa.
    """
    return sum(_least_moved(layer, config) for layer in layers)


def _least_moved(layer: Layer, config: lt.HardwareConfig) -> float:
    images, height, width, filters = layer.result
    made = ceil(images / config.batch) * height * width * ceil(filters / config.block_out) * config.out_element_bytes
    element = config.batch * config.block_in
    inp, wgt, acc = config.inp_depth // 2, config.wgt_depth // 2, config.acc_depth // 2
    if not layer.channels:
        return made + layer.operands * ceil(images / config.batch) * prod(layer.data[1:3]) * (
            ceil(layer.data[3] / config.block_out) * config.out_element_bytes
        )
    blocks, outs = ceil(layer.data[3] / config.block_in), ceil(filters / config.block_out)
    inner = ceil(layer.channels / config.block_in)
    best = inf
    for rows in _tile_sizes(height):
        for columns in _tile_sizes(width):
            for out in _tile_sizes(outs):
                pixels = _reach(rows, layer, 0) * _reach(columns, layer, 1)
                if rows * columns * out > acc or pixels > inp or layer.taps * out > wgt:
                    continue
                tiles = ceil(images / config.batch) * ceil(height / rows) * ceil(width / columns)
                data = tiles * pixels * blocks * element
                weights = layer.taps * inner * outs * config.wgt_element_bytes
                rounds = ceil(outs / out)
                data_stay = data * (1 if pixels * blocks <= inp else rounds) + weights * tiles
                if layer.taps * inner * outs <= wgt:
                    data_stay = data + weights
                weights_stay = data * rounds + weights if layer.taps * inner * out <= wgt else inf
                best = min(best, data_stay, weights_stay)
    return best + made * layer.operands


def _reach(count: int, layer: Layer, side: int) -> int:
    """Rows or columns of data for ``count`` of the result, without gaps between disjoint windows."""
    step, window = layer.step[side], layer.window[side]
    return min((count - 1) * step + window if step <= window else count * window, layer.data[1 + side])


def _tile_sizes(count: int) -> list[int]:
    return sorted({ceil(count / parts) for parts in range(1, count + 1)})
