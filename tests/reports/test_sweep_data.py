"""The data of a sweep's page: complete, compact, and fast to create."""

import base64
import json
import zlib

import numpy as np
import pytest
from sweep_stores import LAYERS, rows_of

from lathe.reports import sweep_data as module
from lathe.reports.markup import json_in_script
from lathe.reports.sweep_data import roles_of, sweep_data
from lathe.reports.units import is_better_great, unit_of
from lathe.sweeps.measurement import METRICS
from lathe.sweeps.store import StoredRow

KINDS = {"i1": np.int8, "u1": np.uint8, "i2": np.int16, "u2": np.uint16, "i4": np.int32, "f8": np.float64}


def unpacked(array):
    return np.frombuffer(zlib.decompress(base64.b64decode(array["deflated"])), KINDS[array["dtype"]])


def values_of(column):
    """A column as decoded by a page; None for missing values."""
    if "values" in column:
        return [None if np.isnan(value) else value for value in unpacked(column["values"]).tolist()]
    return [None if code < 0 else column["texts"][code] for code in unpacked(column["codes"]).tolist()]


def row(place, layers=None, **columns):
    return StoredRow(str(place), place, "s", columns.get("status", "ok"), 0.25, columns, layers or {})


def test_every_value_of_every_row_is_there():
    rows = rows_of(300)
    made = sweep_data(rows)
    assert made["count"] == 300
    for column in made["columns"]:
        if column["name"] != "run_seconds":
            assert values_of(column) == [each.columns.get(column["name"]) for each in rows], column["name"]
    families, family = made["layers"]["families"], unpacked(made["layers"]["family"]).tolist()
    assert sorted(map(len, families)) == [0, LAYERS]
    for name in ("cycles", "bytes", "bound", "macs"):
        kept = unpacked(made["layers"]["columns"][name]).tolist()
        assert kept == [value for each in rows for value in each.layers.get(name, [])]
    assert [families[at] for at in family] == [each.layers.get("layer", []) for each in rows]


def test_roles_of_columns_follow_from_their_order():
    mixed = [
        row(0, workload="matmul", m=16, base="vta", batch=1, status="ok", cycles=3, reason=""),
        row(1, workload="onnx", path="a.onnx", base="vta", dram="ddr4_3200", clock_mhz=200, status="ok", cycles=4),
    ]  # fmt: skip
    assert roles_of(mixed) == {
        "workload": "workload", "m": "shape", "base": "base", "batch": "machine", "status": "status",
        "cycles": "metric", "reason": "reason", "path": "shape", "dram": "machine", "clock_mhz": "machine",
    }  # fmt: skip
    made = sweep_data(mixed)
    columns = {column["name"]: column for column in made["columns"]}
    assert values_of(columns["m"]) == [16, None]
    assert values_of(columns["path"]) == [None, "a.onnx"]
    machine = {column["name"]: values_of(column) for column in made["machines"]["varying"]}
    assert machine["memory.bus_bits"] == [64, 1024]  # that of the memory at this clock
    assert made["machines"]["same"]["block_in"] == 16


def test_mixed_texts_and_numbers_and_numbers_beyond_32_bits():
    made = sweep_data(
        [row(0, base="vta", cores=1, status="ok", macs=1 << 40), row(1, base="vta", cores="all", status="ok")]
    )
    columns = {column["name"]: values_of(column) for column in made["columns"]}
    assert columns["cores"] == ["1", "all"]
    assert columns["macs"] == [1 << 40, None]


def test_changes_of_a_base_that_no_longer_exists():
    made = sweep_data([row(0, workload="w", base="/gone/machine.yaml", batch=2, status="ok")])
    assert made["machines"]["same"] == {"batch": 2}


def test_missing_layers_and_empty_columns():
    made = sweep_data([row(0, base="vta"), row(1, {"layer": ["a"], "cycles": [5], "bytes": [7]}, base="vta")])
    assert made["layers"]["families"] == [[], ["a"]]
    assert unpacked(made["layers"]["columns"]["bound"]).tolist() == [-1]


@pytest.mark.sample(1)
@pytest.mark.parametrize("points", [500, 4000])
def test_machines_are_loaded_once_per_base_and_points_are_compact(points, monkeypatch):
    asked = []
    monkeypatch.setattr(module, "changed", lambda *given: asked.append(given) or changed(*given))
    text = json_in_script(sweep_data(rows_of(points)))
    assert len(asked) == 1
    # Numbers of a point are 46 of 2 to 8 bytes, and four for each of 21 layers; all of these are random here.
    assert len(text) < 3000 + 700 * points
    assert json.loads(text)["count"] == points


changed = module.changed


def test_every_number_of_a_sweep_that_has_a_unit_has_one_here():
    shares = {"utilisation", "efficiency"}
    assert {name for name in METRICS if not unit_of(name)} == shares
    assert all(is_better_great(name) for name in shares)
    assert unit_of("fit_mhz") == "MHz"
    assert unit_of("wgt_buffer_bytes") == "bytes"
    assert unit_of("batch") == ""
