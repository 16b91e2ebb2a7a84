"""Random models of layers that read each other: bits are the reference's, values near onnxruntime's."""

import numpy as np
import pytest
from networks_checking import LATHE16, random_inputs, with_onnxruntime
from qdq_models import QdqModel
from seeds import check_each, event, note

import lathe as lt

FUNCTIONS = ("Relu", "Sigmoid", "HardSwish", "LeakyRelu", "Abs", "Tanh")


class _Layers:
    """A model that grows by random layers."""

    def __init__(self, seed: int) -> None:
        self.random = np.random.default_rng(seed)
        self.graph = QdqModel(seed, dtype=str(self.random.choice(["int8", "uint8"])))
        shape = (1, int(self.random.integers(1, 40)), *map(int, self.random.integers(3, 9, 2)))
        self.images = [self.graph.input(*shape)]

    def grow(self) -> None:
        """One more layer of some image."""
        data = self.images[int(self.random.integers(len(self.images)))]
        kind = str(
            self.random.choice(["conv", "depthwise", "function", "add", "mul", "pool", "concat", "slice", "resize"])
        )
        note(f"{kind} of {self.graph.shapes[data]}")
        self.images.append(getattr(self, f"_{kind}")(data))

    def _conv(self, data: str) -> str:
        size, stride, wide = (int(self.random.integers(low, high)) for low, high in ((1, 4), (1, 3), (1, 40)))
        padding = size // 2
        return self.graph.conv(
            data, wide, size, relu=bool(self.random.integers(2)), pads=[padding] * 4, strides=[stride, stride]
        )

    def _depthwise(self, data: str) -> str:
        channels = self.graph.shapes[data][1]
        return self.graph.conv(data, channels, groups=channels, pads=[1] * 4)

    def _function(self, data: str) -> str:
        same = bool(self.random.integers(2))
        return self.graph.layer(str(self.random.choice(FUNCTIONS)), data, same=same)

    def _alike(self, data: str) -> str:
        shape = self.graph.shapes[data]
        return str(self.random.choice([each for each in self.images if self.graph.shapes[each] == shape]))

    def _add(self, data: str) -> str:
        return self.graph.layer("Add", data, self._alike(data))

    def _mul(self, data: str) -> str:
        return self.graph.layer("Mul", data, self._alike(data))

    def _pool(self, data: str) -> str:
        if min(self.graph.shapes[data][2:]) < 2:
            return self.graph.layer("GlobalAveragePool", data)
        kind, same = (("MaxPool", True), ("AveragePool", False))[int(self.random.integers(2))]
        return self.graph.layer(
            kind, data, same=same, kernel_shape=[2, 2], strides=[int(self.random.integers(1, 3))] * 2
        )

    def _concat(self, data: str) -> str:
        sizes = self.graph.shapes[data][2:]
        others = [each for each in self.images if self.graph.shapes[each][2:] == sizes]
        return self.graph.layer("Concat", data, str(self.random.choice(others)), axis=1)

    def _slice(self, data: str) -> str:
        axis = int(self.random.integers(1, 4))
        size = self.graph.shapes[data][axis]
        start = int(self.random.integers(size))
        held = [self.graph.constant(np.array([each], np.int64)) for each in (start, size, axis)]
        return self.graph.layer("Slice", data, *held)

    def _resize(self, data: str) -> str:
        if max(self.graph.shapes[data][2:]) > 12:
            return self._function(data)
        scales = self.graph.constant(np.array([1, 1, 2, 2], np.float32))
        return self.graph.layer(
            "Resize",
            data,
            "",
            scales,
            mode="nearest",
            coordinate_transformation_mode="asymmetric",
            nearest_mode="floor",
        )


def check_model(seed: int) -> None:
    layers = _Layers(seed)
    for _ in range(int(layers.random.integers(2, 9))):
        layers.grow()
    model = layers.graph.model(layers.images[-1])
    machine = (LATHE16, LATHE16.with_(block_in=8, wgt_buffer_bytes=65536), lt.load_config("vta"))[seed % 3]
    network = lt.from_onnx(model)
    program = network.build(machine)
    inputs = random_inputs(model, seed)
    result = lt.simulate(program, inputs)
    (name,) = result.outputs
    made, (expected,) = result.outputs[name], with_onnxruntime(model, inputs)
    if machine.name != "vta":
        assert np.array_equal(made, lt.reference(network, inputs)[name]), f"seed {seed}: not the reference's"
    apart = np.abs(made - expected) / layers.graph.scales[layers.images[-1]]
    assert np.mean(apart < 1.5) > 0.9, f"seed {seed}: {np.mean(apart < 1.5)} of the values within one unit"
    event("all on the NPU" if all(row.where == "npu" or "Linear" in row.name for row in result.layers) else "shared")


@pytest.mark.seeds(18, slow=200)
def test_random_models(seeds):
    happened = check_each(seeds, check_model)
    assert happened["all on the NPU"]
