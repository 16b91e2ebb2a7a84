"""Points of a sweep that are run with the other commands have the same metrics as the sweep's rows."""

import json

import pytest
from click.testing import CliRunner
from qdq_models import QdqModel

import lathe as lt
from lathe.command_line import main
from lathe.configs import config_to_yaml

SWEEP = """
base: [tiny, lathe16]
machine:
  memory.latency: [0, 24]
  memory.bus_bits: [32, 64]
workloads:
  - matmul: {m: 6, n: 8, k: 12}
  - conv2d: {height: 5, width: 5, channels: 8, filters: 8, padding: 1, epilogue: requantise}
  - onnx: {path: model.onnx}
"""
BY_HAND = {
    "matmul": """
import lathe as lt
def build(cfg):
    A, B = lt.placeholder((6, 12), "int8", name="A"), lt.placeholder((8, 12), "int8", name="B")
    sums = lt.matmul(A, B, transpose_b=True)
    C = lt.compute(sums.shape, lambda i, j: sums[i, j].astype("int8"), "C")
    return lt.build(C, [A, B, C], cfg)
""",
    "conv2d": """
import lathe as lt
def build(cfg):
    image = lt.placeholder((1, 5, 5, 8), "int8", name="image")
    weights = lt.placeholder((8, 3, 3, 8), "int8", name="weights")
    C = lt.requantise(lt.conv2d(image, weights, padding=1), 8)
    return lt.build(C, [image, weights, C], cfg)
""",
}
COUNTED = ("gemm_operations", "alu_operations", "bytes_read", "bytes_written")


def output_of(*words):
    result = CliRunner().invoke(main, [str(word) for word in words])
    assert result.exit_code == 0, result.output
    return json.loads(result.stdout) if "--json" in words else None


def count(value):
    """A count, or the sum of several by name."""
    return sum(value.values()) if isinstance(value, dict) else value


@pytest.fixture
def rows(tmp_path):
    """Twelve points: operators on tiny, and a model on the machine that has its extensions."""
    graph = QdqModel()
    model = graph.model(graph.conv(graph.conv(graph.input(1, 16, 8, 8), 16, relu=True), 16))
    (tmp_path / "model.onnx").write_bytes(model.SerializeToString())
    (tmp_path / "sweep.yaml").write_text(SWEEP)
    found = output_of("sweep", tmp_path / "sweep.yaml", "--jobs", 2, "--json")
    return [row for row in found if (row["base"] == "lathe16") == (row["workload"] == "onnx")]


def machine_of(row, folder):
    """The machine of a row, as a file."""
    changes = {key: row[key] for key in ("memory.latency", "memory.bus_bits")}
    path = folder / "machine.yaml"
    path.write_text(config_to_yaml(lt.load_config(row["base"]).with_(**changes)))
    return path


@pytest.mark.slow
def test_rows_have_the_metrics_of_the_other_commands(rows, tmp_path):
    assert len(rows) == 12
    on_hardware = 0
    for row in rows:
        assert row["status"] == "ok"
        machine, program = machine_of(row, tmp_path), tmp_path / "program.npz"
        if row["workload"] == "onnx":
            alone = output_of("simulate", tmp_path / "model.onnx", "-c", machine, "--timing-only", "--json")
        else:
            (tmp_path / "mine.py").write_text(BY_HAND[row["workload"]])
            output_of("compile", tmp_path / "mine.py", "-c", machine, "-o", program)
            alone = output_of("simulate", program, "--timing-only", "--json")
        assert alone["cycles"] == row["cycles"]
        for name in COUNTED:
            assert sum(count(stream[name]) for stream in alone.get("streams", [alone])) == row[name], (row, name)
        if row["workload"] != "onnx":
            assert alone["utilisation"] == pytest.approx(row["utilisation"], abs=1e-6)
            assert alone["efficiency"] == pytest.approx(row["efficiency"], abs=1e-6)
        if row["workload"] != "onnx" and row["memory.latency"] and on_hardware < 3:
            ran = output_of("simulate", program, "--random", 1, "--engine", "pysim", "--json")
            assert ran["cycles"] == row["cycles"]
            on_hardware += 1
    assert on_hardware == 3
