"""Per-layer results of rows: they add up to the point's, and are stored."""

from dataclasses import replace

import onnx
import pytest
from qdq_models import QdqModel

import lathe as lt
from lathe.sweeps.measurement import measure
from lathe.sweeps.specification import Point
from lathe.sweeps.store import reading_store

MATMUL = {"matmul": {"m": 16, "n": 32, "k": 32}}


@pytest.fixture
def model(tmp_path):
    graph = QdqModel()
    first = graph.conv(graph.input(1, 16, 8, 8), 16, 3, name="first")
    onnx.save(graph.model(graph.conv(first, 32, 1, name="second")), tmp_path / "two.onnx")
    return str(tmp_path / "two.onnx")


def test_layers_of_a_network_add_up_to_its_row(model):
    row = measure(Point("lathe16", {}, "onnx", {"path": model}))
    assert row.status == "ok"
    assert list(row.layers) == ["layer", "cycles", "bytes", "bound", "macs"]
    assert row.layers["layer"] == ["first", "second"]
    assert sum(row.layers["cycles"]) == row.numbers["cycles"]
    assert sum(row.layers["bound"]) == row.numbers["bound_cycles"]
    network = lt.from_onnx(model).build(lt.load_config("lathe16"))
    by_hand = [each for each in lt.simulate(network, timing_only=True).layers if each.where == "npu"]
    assert row.layers["cycles"] == [each.cycles for each in by_hand]
    assert row.layers["macs"] == [each.macs for each in by_hand]


def test_the_layers_of_a_program_are_its_labels():
    row = measure(Point("vta", {}, "matmul", MATMUL["matmul"]))
    assert list(row.layers) == ["layer", "cycles", "bytes"]
    assert sum(row.layers["cycles"]) == row.numbers["cycles"]
    moved = row.numbers["bytes_read"] + row.numbers["bytes_written"] - row.numbers["read_instructions"]
    assert sum(row.layers["bytes"]) == moved


def test_a_point_without_metrics_has_no_layers():
    assert measure(Point("vta", {"batch": 3}, "matmul", MATMUL["matmul"])).layers == {}


def test_layers_are_stored_and_not_lost_when_a_sweep_is_resumed(tmp_path):
    source = {"machine": {"memory.latency": [0, 32]}, "workloads": [MATMUL]}
    lt.sweep(source, output=tmp_path / "r.db", jobs=1)
    with reading_store(tmp_path / "r.db") as store:
        first = store.rows()
    lt.sweep(source, output=tmp_path / "r.db", jobs=1)
    with reading_store(tmp_path / "r.db") as store:
        assert store.rows() == [replace(row, run=2) for row in first]
    assert [sum(row.layers["cycles"]) for row in first] == [row.columns["cycles"] for row in first]
