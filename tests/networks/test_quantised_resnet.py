"""ResNet-18 of examples/models for small images, quantised by onnxruntime."""

import sys
from pathlib import Path

import numpy as np
import onnx
import pytest
from networks_checking import LATHE16, with_onnxruntime

import lathe as lt

EXAMPLES = Path(__file__).parents[2] / "examples" / "models"
PIXELS = 32


@pytest.fixture(scope="module")
def models(tmp_path_factory):
    from onnxruntime.quantization import CalibrationDataReader, QuantFormat, quantize_static

    sys.path.insert(0, str(EXAMPLES))
    try:
        from resnet import resnet18
    finally:
        sys.path.remove(str(EXAMPLES))
    generator = np.random.default_rng(1)

    class Pictures(CalibrationDataReader):
        def __init__(self) -> None:
            shape = (1, 3, PIXELS, PIXELS)
            self.left = [{"image": generator.standard_normal(shape).astype(np.float32)} for _ in range(2)]

        def get_next(self):
            return self.left.pop() if self.left else None

    folder = tmp_path_factory.mktemp("resnet")
    onnx.save(resnet18(PIXELS, classes=20), folder / "float.onnx")
    found = {}
    for symmetric in (False, True):
        path = folder / f"{symmetric}.onnx"
        options = {"ActivationSymmetric": symmetric}
        quantize_static(
            folder / "float.onnx", path, Pictures(), quant_format=QuantFormat.QDQ, per_channel=True,
            extra_options=options,
        )  # fmt: skip
        found[symmetric] = path
    return found


@pytest.mark.slow
@pytest.mark.parametrize("symmetric", [False, True])
def test_all_layers_are_one_stream(models, symmetric):
    network = lt.from_onnx(models[symmetric])
    program = network.build(LATHE16)
    assert len(program.parts) == 1
    inputs = {"image": np.random.default_rng(2).standard_normal((1, 3, PIXELS, PIXELS)).astype(np.float32)}
    result = lt.simulate(program, inputs)
    assert np.array_equal(result.outputs["classes"], lt.reference(network, inputs)["classes"])
    assert {row.why for row in result.layers if row.where == "host"} == {"it converts between float and 8 bits"}
    assert sum(row.macs for row in result.layers) > 30e6
    (expected,) = with_onnxruntime(onnx.load(models[symmetric]), inputs)
    made = result.outputs["classes"]
    cosine = float((made * expected).sum() / np.linalg.norm(made) / np.linalg.norm(expected))
    assert cosine > 0.999
    assert made.argmax() == expected.argmax()
