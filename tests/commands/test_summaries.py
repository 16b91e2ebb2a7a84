"""The table of layers: its caption explains all columns, and its numbers match."""

import re
from pathlib import Path

from click.testing import CliRunner

import lathe as lt
from lathe.command_line import main
from lathe.commands.summaries import LEGEND, labels_table

COLUMNS = ("load", "gemm", "alu", "transfer", "store", "compute waits", "mostly for", "share of compute")


def test_every_column_is_explained_beneath_the_table_and_in_the_document():
    assert all(re.search(rf"\b{column}\b", LEGEND) for column in COLUMNS)
    text = (Path(lt.__file__).resolve().parents[1] / "docs" / "timing-model.md").read_text(encoding="utf-8")
    defined = text.split("| column | meaning |")[1].split("\n\n")[0]
    assert all(f"`{column}`" in defined for column in COLUMNS)
    assert all(column in [each.header for each in labels_table([], 1, 1).columns] for column in COLUMNS)


def test_shares_of_compute_are_its_columns_over_all_cycles(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    A, B = (lt.placeholder((8, 16), "int8", name=name) for name in "AB")
    D = lt.requantise(lt.matmul(A, B, transpose_b=True, name="C"), 4, name="D")
    program = lt.build(D, [A, B, D], lt.load_config("tiny"))
    program.save("p.npz")
    result = lt.simulate(program, timing_only=True)
    printed = CliRunner().invoke(main, ["simulate", "p.npz", "--timing-only"]).stdout
    assert " ".join(LEGEND.split()) in " ".join(printed.split())
    shares = 0.0
    for cost in lt.cycles_by_label(result):
        busy = sum(cost.busy[each] for each in ("gemm", "alu", "transfer"))
        shares += (busy + cost.waiting["compute"]) / result.cycles
    last = result.counters.units["compute"]
    assert round(shares * result.cycles) <= result.cycles
    assert round(shares * result.cycles) == last.busy + sum(
        part.stalled.sum() + part.waited.sum() for part in [result.trace.of_unit("compute")]
    )
    (told,) = re.findall(r"^all .* ([\d.]+) %$", printed, re.MULTILINE)
    assert told == f"{100 * shares:.1f}"


def test_stall_causes_of_a_layer_add_up_to_its_stalls():
    A, B = (lt.placeholder((40, 64), "int8", name=name) for name in "AB")
    D = lt.max_pool2d(
        lt.reshape(lt.requantise(lt.matmul(A, B, transpose_b=True, name="C"), 4, name="D"), (1, 40, 40, 1)), 2, name="E"
    )
    result = lt.simulate(lt.build(D, [A, B, D], lt.load_config("tiny")), timing_only=True)
    costs = lt.cycles_by_label(result)
    assert len(costs) > 1
    for unit in ("load", "compute", "store"):
        causes: dict[str, int] = {}
        for cost in costs:
            assert sum(cost.reasons[unit].values()) == cost.waiting[unit]
            for cause, cycles in cost.reasons[unit].items():
                causes[cause] = causes.get(cause, 0) + cycles
        known = result.counters.units[unit].stalls
        assert set(causes) <= set(known)
    compute = {cause for cost in costs for cause in cost.reasons["compute"]}
    assert {"load->compute", "store->compute"} <= compute
