"""ResNet-18 (He et al., 2015) at 224² pixels, quantised by onnxruntime, on `lathe16` with a memory that never waits.

The float model of `examples/models` has seeded weights; calibration takes two seeded pictures of noise. `symmetric`:
activations with a zero point of 0, with which taps in borders are left out. The body is what lies between max-pool and
global average. Outputs are compared with the NumPy meaning and with onnxruntime, its graph optimisations off.

    python benchmarks/networks.py [--json]
"""

import sys
import tempfile
import time
from pathlib import Path

import numpy as np
import onnx
from onnxruntime.quantization import CalibrationDataReader, QuantFormat, quantize_static

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parents[1] / "examples" / "models"))

from figures import Figure, at_least, at_most, one_core, report, seconds
from resnet import resnet18

import lathe as lt
from lathe.networks.comparison import compared_with_onnxruntime

PIXELS = 224
OUTSIDE = ("conv0", "maxpool2", "globalaveragepool46", "flatten47", "classifier")
"""Layers that are no part of the body."""


class Pictures(CalibrationDataReader):
    """Two pictures of noise."""

    def __init__(self) -> None:
        generator = np.random.default_rng(1)
        self.left = [{"image": noise(generator)} for _ in range(2)]

    def get_next(self) -> dict[str, np.ndarray] | None:
        return self.left.pop(0) if self.left else None


def noise(generator: np.random.Generator) -> np.ndarray:
    return generator.standard_normal((1, 3, PIXELS, PIXELS)).astype(np.float32)


def measured(path: Path, name: str, machine: lt.HardwareConfig) -> list[Figure]:
    """The figures of one model."""
    network = lt.from_onnx(path)
    start = time.perf_counter()
    program = network.build(machine)
    built = time.perf_counter() - start
    inputs = {"image": noise(np.random.default_rng(5))}
    result = lt.simulate(program, inputs)
    expected = lt.reference(network, inputs)["classes"]
    assert np.array_equal(result.outputs["classes"], expected), "bits differ from NumPy"
    (found,) = compared_with_onnxruntime(network.model, inputs, result.outputs)
    rows = {row.name: row for row in result.layers if row.where == "npu"}
    body = sum(row.cycles for row in rows.values() if row.name not in OUTSIDE)
    macs = sum(row.macs for row in rows.values())
    return [
        Figure(f"{name}: layers on the NPU", len(rows), ""),
        Figure(f"{name}: nodes on the host", len(result.layers) - len(rows), ""),
        Figure(f"{name}: multiply-accumulates", macs, ""),
        Figure(f"{name}: cycles", result.cycles, ""),
        at_most(f"{name}: body", body, "cycles", 6.5e6),
        Figure(f"{name}: efficiency", round(macs / (result.cycles * machine.multipliers), 3), "of peak"),
        Figure(f"{name}: bytes", sum(row.bytes for row in rows.values()), ""),
        at_most(f"{name}: compiled cold in", built, "s", 15),
        at_most(f"{name}: simulated in", seconds(lambda: lt.simulate(program, inputs), 3), "s", 0.8),
        at_most(f"{name}: timing only in", seconds(lambda: lt.simulate(program, timing_only=True), 3), "s", 0.15),
        at_least(f"{name}: cosine with onnxruntime", found.cosine, "", 0.999),
    ]


def main() -> None:
    one_core()
    machine = lt.load_config("lathe16").with_(**{"memory.latency": 0})
    figures = []
    with tempfile.TemporaryDirectory() as folder:
        onnx.save(resnet18(PIXELS), Path(folder) / "float.onnx")
        for name, symmetric in (("ResNet-18", False), ("ResNet-18 symmetric", True)):
            path = Path(folder) / f"{name}.onnx"
            quantize_static(
                Path(folder) / "float.onnx", path, Pictures(), quant_format=QuantFormat.QDQ, per_channel=True,
                extra_options={"ActivationSymmetric": symmetric},
            )  # fmt: skip
            figures += measured(path, name, machine)
    report(figures, __doc__ or "")


if __name__ == "__main__":
    main()
