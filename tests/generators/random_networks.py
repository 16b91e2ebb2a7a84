"""Random machines, and random programs of operators that a machine has instructions for."""

from random_programs import Choice

from lathe.configs import ConfigError, HardwareConfig, load_config
from lathe.configs.encoding import GEMM_BEGIN
from lathe.frontend import Tensor, compute, max, min, placeholder
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
    relu,
    requantise,
)
from lathe.scheduler import Schedule, ScheduleError


def machines(choice: Choice) -> HardwareConfig:
    """A shipped machine with some parameters changed, sometimes with ``gemm_begin``."""
    config = load_config(choice.pick(["tiny", "vta", "batch4"]))
    config = config.with_(extensions=choice.pick([(), (GEMM_BEGIN,)]))
    changes = {
        "batch": [1, 1, 2, 4],
        "block_in": [4, 8, 16],
        "block_out": [4, 8, 16],
        "inp_buffer_bytes": [2048, 4096, 32768],
        "wgt_buffer_bytes": [8192, 65536],
        "acc_buffer_bytes": [8192, 131072],
        "uop_buffer_bytes": [1024, 32768],
        "memory.bus_bits": [64, 128, 256],
        "memory.latency": [0, 3, 40],
    }
    for key in choice.shuffled(list(changes))[: choice.number(0, 3)]:
        try:
            config = config.with_(**{key: choice.pick(changes[key])})
        except ConfigError:
            continue  # invalid with the other parameters
    return config


def networks(choice: Choice, layers: int) -> list[Tensor]:
    """The outputs of a program of some layers, each of one to four computations."""
    count = iter(range(1000))

    def name(what: str) -> str:
        return f"{what}{next(count)}"

    def activated(data: Tensor) -> Tensor:
        """int32 requantised to int8, perhaps with a bias and Relu."""
        if choice.number(0, 2) == 0:
            data = bias_add(data, placeholder((data.shape[-1],), "int32", name("bias")), name=name("biased"))
        if choice.number(0, 3) == 0:
            data = relu(data, name=name("relu"))
        return requantise(data, choice.number(0, 12), name=name("quantised"))

    def image() -> Tensor:
        shape = (choice.pick([1, 1, 2, 3]), choice.number(3, 10), choice.number(3, 10), choice.pick([1, 3, 4, 8, 17]))
        return placeholder(shape, "int8", name("image"))

    def convolution(data: Tensor) -> Tensor:
        groups = choice.pick([g for g in (1, 1, 1, 2, 4) if data.shape[3] % g == 0])
        outputs = groups * choice.number(1, 10)
        kernel = (choice.number(1, min2(3, data.shape[1])), choice.number(1, min2(3, data.shape[2])))
        padding = ((choice.number(0, 2), choice.number(0, 2)), (choice.number(0, 2), choice.number(0, 2)))
        weight = placeholder((outputs, *kernel, data.shape[3] // groups), "int8", name("weight"))
        reach = [size + pads[0] + pads[1] for size, pads in zip(data.shape[1:3], padding, strict=True)]
        dilation = (
            2 if all(2 * (k - 1) < r for k, r in zip(kernel, reach, strict=True)) and choice.number(0, 3) == 0 else 1
        )
        return conv2d(
            data,
            weight,
            stride=choice.number(1, 2),
            padding=padding,
            dilation=dilation,
            groups=groups,
            name=name("conv"),
        )

    def pooling(data: Tensor) -> Tensor:
        window = (choice.number(1, min2(3, data.shape[1])), choice.number(1, min2(3, data.shape[2])))
        kind = choice.pick([max_pool2d, avg_pool2d])
        return kind(data, window, stride=choice.pick([None, 1, 2]), name=name("pool"))

    def product() -> Tensor:
        M, K, N = choice.number(1, 12), choice.number(1, 40), choice.number(1, 40)
        A = placeholder((M, K), "int8", name("A"))
        if choice.number(0, 1):
            return matmul(A, placeholder((K, N), "int8", name("B")), name=name("product"))
        return matmul(A, placeholder((N, K), "int8", name("B")), transpose_b=True, name=name("product"))

    def pointwise() -> Tensor:
        shape = tuple(choice.number(1, 20) for _ in range(choice.number(1, 3)))
        dtype = choice.pick(["int8", "int32"])
        A, B = placeholder(shape, dtype, name("A")), placeholder(shape, dtype, name("B"))
        forms = [
            lambda: add(A, B, name=name("sum")),
            lambda: clip(A, -5, 100, name=name("clipped")),
            lambda: compute(shape, lambda *i: max(A[i], B[i]) - min(A[i], 3), name("spread")),
            lambda: compute(shape, lambda *i: (A[i].astype("int32") * 3 + 70000) >> 2, name("scaled")),
        ]
        return choice.pick(forms)()

    first = choice.pick(["product", "pointwise", "image", "image", "image"])
    if first == "pointwise":
        return [pointwise()]
    if first == "product":
        made = product()
        for _ in range(layers - 1):
            data = activated(made)
            made = dense(
                data, placeholder((choice.number(1, 20), data.shape[1]), "int8", name("W")), name=name("dense")
            )
        return [made if choice.number(0, 1) else activated(made)]
    data = image()
    for _ in range(layers):
        data = pooling(data) if choice.number(0, 3) == 0 else activated(convolution(data))
    if choice.number(0, 3) == 0:
        flat = flatten(data, name=name("flat"))
        return [dense(flat, placeholder((choice.number(1, 10), flat.shape[1]), "int8", name("W")), name=name("dense"))]
    return [data]


def min2(a: int, b: int) -> int:
    return a if a < b else b


def loops(choice: Choice, schedule: Schedule, most: int) -> list[str]:
    """Apply random loop primitives to a stage; returns them as text."""
    done = []
    stage = schedule[schedule.outputs[0]] if choice.number(0, 3) else choice.pick(schedule.stages)
    for _ in range(choice.number(0, most)):
        axes = [axis for axis in stage.leaf_axis if axis.kind == "data"]
        kind = choice.pick(["split", "split", "tile", "reorder", "fuse"])
        axis = choice.pick(axes)
        if kind == "split":
            factor = choice.number(1, 20)
            stage.split(axis, factor=factor)
            done.append(f"{stage.name}.split({axis.name}, {factor})")
        elif kind == "tile" and len(axes) > 1:
            x, y = choice.shuffled(axes)[:2]
            a, b = choice.number(1, 16), choice.number(1, 16)
            stage.tile(x, y, a, b)
            done.append(f"{stage.name}.tile({x.name}, {y.name}, {a}, {b})")
        elif kind == "reorder":
            order = choice.shuffled(axes)
            stage.reorder(*order)
            done.append(f"{stage.name}.reorder({', '.join(axis.name for axis in order)})")
        elif kind == "fuse":
            pairs = [
                (a, b) for a, b in zip(stage.leaf_axis, stage.leaf_axis[1:], strict=False) if a.kind == b.kind == "data"
            ]
            if pairs:
                pair = choice.pick(pairs)
                stage.fuse(*pair)
                done.append(f"{stage.name}.fuse({pair[0].name}, {pair[1].name})")
    return done


def orders(choice: Choice, schedule: Schedule, most: int) -> list[str]:
    """Apply random primitives on the order of the output's loops, after splits and tiles; returns them as text."""
    done = loops(choice, schedule, 2)
    stage = schedule[schedule.outputs[0]]
    for _ in range(choice.number(1, most)):
        axes = [axis for axis in stage.leaf_axis if axis.kind == "data"]
        x, y, number = choice.pick(axes), choice.pick(axes), choice.number(1, 4)
        kind = choice.pick(["reverse", "shift", "skew", "interchange", "separate"])
        try:
            if kind == "reverse":
                stage.reverse(x)
            elif kind == "shift":
                stage.shift(x, number)
            elif kind == "skew":
                stage.reorder(*reversed(stage.skew(x, y, number, 1)))
            elif kind == "interchange":
                stage.interchange(x, y)
            else:
                stage.separate(x, number)
        except ScheduleError:
            continue
        done.append(f"{stage.name}.{kind}({x.name}, {y.name}, {number})")
    return done
