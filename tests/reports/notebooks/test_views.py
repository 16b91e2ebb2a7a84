"""HTML representations of public values for notebooks: complete, escaped, and without scripts."""

import dataclasses
from html.parser import HTMLParser
from xml.etree import ElementTree

import numpy as np
import pytest
from qdq_models import QdqModel

import lathe as lt
from lathe.configs.html_repr import html_of, repr_html
from lathe.networks.explanation import LayerExplained, NetworkExplanation
from lathe.reports.notebooks.fragments import MOST_ROWS, panel, table
from lathe.sweeps.rows import SweepRows

VTA = lt.load_config("vta")
A = lt.placeholder((60, 64), "int8", name="A")
B = lt.placeholder((96, 64), "int8", name="B")
C = lt.matmul(A, B, transpose_b=True, name="C")
D = lt.compute(C.shape, lambda i, j: lt.min(lt.max(C[i, j] >> 8, 0), 127).astype("int8"), name="D")
SPACE = "\N{NO-BREAK SPACE}"
ALLOWED = {"div", "table", "thead", "tbody", "tr", "th", "td", "details", "summary", "pre"}
ALLOWED |= {"svg", "title", "rect", "text", "circle", "polyline"}
HOSTILE = "</script><img src=x onerror=alert(1)>&\"'"


@pytest.fixture(scope="module")
def program() -> lt.Program:
    return lt.build(D, [A, B, D], VTA)


@pytest.fixture(scope="module")
def result(program: lt.Program) -> lt.Result:
    rng = np.random.default_rng(0)
    return lt.simulate(program, {name: rng.integers(-9, 9, t.shape, np.int8) for name, t in (("A", A), ("B", B))})


@pytest.fixture(scope="module")
def network() -> lt.Network:
    model = QdqModel()
    return lt.from_onnx(model.model(model.conv(model.input(1, 16, 4, 4), 16, 3, pads=(1, 1, 1, 1))))


def text_of(view: str) -> str:
    """The text of a view, whose HTML must be well-formed."""
    tree = ElementTree.fromstring(view)
    for each in tree.iter():
        assert each.tag.rpartition("}")[2] in ALLOWED
        assert not any(name.startswith("on") or name in ("href", "src") for name in each.attrib)
    return "\n".join(text.strip() for text in tree.itertext() if text.strip())


def test_a_machine_shows_its_core_its_scratchpads_and_every_number() -> None:
    text = text_of(VTA._repr_html_())
    assert text.startswith("Machine vta\nmatrix core\n1 × 16 × 16\nmultipliers\n256\n")
    assert f"wgt\n256 KiB\n1{SPACE}024\n" in text
    assert "memory.outstanding_reads\n8\n" in text
    assert "inp_element_bytes\n16\nBytes of an input vector: batch × block_in values.\n" in text
    assert "bus_bits\n64" in text_of(VTA.memory._repr_html_())
    assert "gemm_pipeline\n6" in text_of(VTA.timing._repr_html_())


def test_tensors_show_how_they_are_computed() -> None:
    assert text_of(A._repr_html_()) == "Tensor A\ndtype\nint8\nshape\n60 × 64"
    assert "int8(min(max(C[i, j] >> 8, 0), 127))" in text_of(D._repr_html_())
    assert text_of(D.computation._repr_html_()).startswith("Computation D\ncompute D: int8[60, 96]")


def test_a_program_shows_kinds_segments_and_instructions(program: lt.Program) -> None:
    text = text_of(program._repr_html_())
    assert text.startswith(f"Program of {len(program.instructions)} instructions for vta\n")
    assert "LOAD\n17\n" in text
    assert "A\ninput\nint8 60 × 64\n" in text
    assert text.splitlines()[-1].split()[:2] == [str(len(program.instructions) - 1), "finish"]


def test_a_long_program_shows_its_first_instructions_and_says_so() -> None:
    wide = lt.placeholder((256, 256), "int8", name="X")
    both = lt.matmul(wide, lt.placeholder((256, 256), "int8", name="Y"), transpose_b=True, name="Z")
    out = lt.compute(both.shape, lambda i, j: (both[i, j] >> 8).astype("int8"), name="W")
    built = lt.build(out, [wide, *[t for t in _inputs(both) if t is not wide], out], VTA.with_(inp_buffer_bytes=2048))
    assert len(built.instructions) > 200
    assert "The first 200 instructions" in text_of(built._repr_html_())


def _inputs(tensor: lt.Tensor) -> list[lt.Tensor]:
    return list(dict.fromkeys(each.tensor for each in tensor.computation.reads))


def test_a_schedule_shows_loops_memories_and_compute_locations() -> None:
    s = lt.create_schedule(D)
    made = s.cache_write(D, "acc")
    io, _ = s[D].split(s[D].axis[0], factor=16)
    s[made].compute_at(s[D], io)
    text = text_of(s._repr_html_())
    assert text.startswith("Schedule of D\n")
    assert "acc\ni 60, j 96\nio of D\n" in text.replace("i 16, j 96", "i 60, j 96")
    assert "io 4, ii 16, j 96" in text
    assert "for io in 0..4:" in text
    assert text_of(s[D]._repr_html_()).startswith("Stage D\n")


def test_a_schedule_with_unbound_parameters() -> None:
    n = lt.parameter("n", 1, 64)
    x = lt.placeholder((n,), "int8", name="x")
    text = text_of(lt.create_schedule(lt.compute((n,), lambda i: x[i] >> 1, name="y"))._repr_html_())
    assert text.startswith("Schedule of y\n")


def test_an_autotuned_schedule_shows_candidates_and_its_script() -> None:
    found = lt.autoschedule(D, VTA, budget=3, cache=False)
    text = text_of(found._repr_html_())
    assert text.startswith("Autotuned schedule of D\nmachine\nvta\ncycles\n")
    assert "create_schedule" in text


def test_explanations_bounds_and_counts_are_tables() -> None:
    s = lt.create_schedule(D)
    assert text_of(s.explain(VTA)._repr_html_()).startswith("On vta: maps\nstage\nin\nchunks\n")
    data = lt.placeholder(60, "int8", name="E")
    refused = text_of(lt.explain(lt.compute((60,), lambda i: 60 // data[i], name="F"), VTA)._repr_html_())
    assert refused.startswith("On vta: does not map")
    assert "failed constraint" in refused
    bound = lt.bound(D, VTA)
    assert f"{bound.cycles:,}".replace(",", SPACE) + f" cycles, bound by {bound.limit}" in text_of(bound._repr_html_())
    assert text_of(s.count(VTA)._repr_html_()).startswith("Counts of the schedule\nstage\ninstances\n")


def test_answers_and_layouts_are_shown(program: lt.Program) -> None:
    s = lt.create_schedule(D)
    yes = s.is_parallel(s[D].axis[0])
    assert text_of(yes._repr_html_()).startswith(f"Yes\n{yes.reason}")
    no = s.is_parallel(s[C].reduce_axis[0])
    assert text_of(no._repr_html_()).startswith(f"No\n{no.reason}")
    assert text_of(s.dependences()[0]._repr_html_()) == f"Dependence\n{s.dependences()[0]}"
    assert text_of(s.padding_needed(A)._repr_html_()).startswith("Padding of A\n")
    assert text_of(s.layout(D)._repr_html_()).startswith("Layout of D\nD: row-major")
    assert program.outputs[0].layout is not None
    assert text_of(program.outputs[0].layout._repr_html_()).startswith("Layout\ntensor\nint8 60 × 96\n")


def test_a_result_shows_where_its_cycles_went(result: lt.Result) -> None:
    view = result._repr_html_()
    text = text_of(view)
    cycles = f"{result.cycles:,}".replace(",", SPACE)
    assert text.startswith(f"{cycles} cycles on vta\n")
    busy = f"{result.counters.units['compute'].busy:,}".replace(",", SPACE)
    assert f"compute, busy: {busy} cycles" in text
    assert "D\nint8\n60 × 96\n" in text
    assert view.count("<svg") == 2
    (cost,) = lt.cycles_by_label(result)
    assert text_of(cost._repr_html_()).startswith("Layer D\n")


def test_bars_of_units_cover_all_cycles(result: lt.Result) -> None:
    tree = ElementTree.fromstring(result._repr_html_())
    svg = tree.find(".//{http://www.w3.org/2000/svg}svg")
    assert svg is not None
    bars = [each for each in svg if each.tag.endswith("rect") and each.get("height") == "15.00"]
    widths: dict[str | None, float] = {}
    for bar in bars:
        widths[bar.get("y")] = widths.get(bar.get("y"), 0) + float(bar.get("width") or 0)
    assert len(widths) == 4
    assert all(width == pytest.approx(490, abs=0.1) for width in widths.values())


def test_a_result_without_a_trace_has_no_timeline(program: lt.Program) -> None:
    view = lt.simulate(program, timing_only=True, trace=False)._repr_html_()
    assert view.count("<svg") == 1
    assert "Cycles for each layer" not in text_of(view)


def test_networks_show_layers_ports_and_reasons(network: lt.Network) -> None:
    assert "x\ninput\nfloat32\n1 × 16 × 4 × 4\n" in text_of(network._repr_html_())
    built = network.build(lt.load_config("lathe16"), cache=False)
    assert "layers on the machine\n1\n" in text_of(built._repr_html_())
    result = lt.simulate(built, timing_only=True)
    text = text_of(result._repr_html_())
    assert text.startswith(f"Network in {result.cycles:,} cycles\n".replace(",", SPACE))
    assert "layer\ncycles\nshare\nbound\nMACs\nbytes\n" in text
    assert text_of(result.layers[0]._repr_html_()).startswith(f"Layer {result.layers[0].name}\n")


def test_engines_and_replays_are_shown(program: lt.Program, result: lt.Result) -> None:
    both = lt.Cosimulation({"sim": result, "other": result}, ("Output D differs.",))
    assert text_of(both._repr_html_()).startswith("The engines differ\n")
    assert "Output D differs." in text_of(both._repr_html_())
    pages = {"page_addrs": np.zeros(0, np.uint64), "pages": np.zeros((0, 4096), np.uint8)}
    stream = {"insns": program.encoded[-1:], "insn_addr": np.uint64(0x1000), "tokens": np.zeros(4, np.int64), **pages}
    replayed = lt.replay(VTA, stream)
    assert text_of(replayed._repr_html_()).startswith(f"Replay in {replayed.cycles} cycles\n")


@pytest.mark.slow
def test_rows_of_a_sweep_show_what_varies_and_the_best() -> None:
    source = {
        "machine": {"memory.latency": [0, 32], "batch": [1, 2]},
        "workloads": [{"matmul": {"m": 16, "n": 32, "k": 32}}],
    }
    rows = lt.sweep(source, jobs=1)
    assert isinstance(rows, list)
    view = rows._repr_html_()
    text = text_of(view)
    assert text.startswith("Sweep of 4 points: 4 ok\nworkload\nmatmul\nm\n16\n")
    assert "memory.latency\nbatch\ncycles\nefficiency\nenergy_pj\n" in text
    assert view.count("<svg") == 1


def test_rows_without_numbers_are_shown_with_their_reasons() -> None:
    rows = SweepRows([{"workload": "matmul", "base": "vta", "status": "unmappable", "reason": "It is too large."}])
    assert text_of(html_of(rows) or "").startswith("Sweep of 1 points: 1 unmappable\n")
    assert "It is too large." in text_of(html_of(rows) or "")
    assert text_of(html_of(SweepRows()) or "").startswith("Sweep of 0 points")


class Tags(HTMLParser):
    """The HTML elements of a text, as a browser parses them."""

    def __init__(self) -> None:
        super().__init__()
        self.found: set[str] = set()

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:  # noqa: ARG002 - HTMLParser gives them
        self.found.add(tag)


@pytest.mark.parametrize(
    "value",
    [
        VTA.with_(name=HOSTILE),
        lt.LayerRow(HOSTILE, "npu", 10, 5, 3, 2, HOSTILE),
        lt.LabelCycles(HOSTILE, 1, dict.fromkeys(("load", "gemm", "alu", "transfer", "store"), 1), {"compute": 1},
                       {"compute": {HOSTILE: 1}}),
        NetworkExplanation(HOSTILE, HOSTILE, (LayerExplained(HOSTILE, "host", 0, HOSTILE),), ()),
        SweepRows({"workload": HOSTILE, HOSTILE: n, "status": "ok", "cycles": n, "energy_pj": n} for n in range(4)),
    ],
    ids=lambda value: type(value).__name__,
)  # fmt: skip
def test_text_is_text(value: object) -> None:
    view = html_of(value)
    assert view is not None
    tags = Tags()
    tags.feed(view)
    assert not tags.found & {"img", "script"}
    assert HOSTILE in text_of(view)


def test_long_tables_say_how_many_rows_are_left_out() -> None:
    text = text_of(panel("t", table(("n",), [(n,) for n in range(MOST_ROWS + 1234)])))
    assert text.endswith(f"1{SPACE}234 more rows")


def test_a_finding_is_shown(program: lt.Program) -> None:
    wrong = dataclasses.replace(program, instructions=program.instructions[:-1], label_of=program.label_of[:-1])
    found = lt.verify(wrong)[0]
    assert text_of(found._repr_html_()) == f"Finding: {found.kind}\n{found}"


def test_every_class_that_is_shown_says_so() -> None:
    shown = [each for each in html_of.registry if each is not object]
    assert len(shown) > 20
    assert [each for each in shown if getattr(each, "_repr_html_", None) is not repr_html] == []


def test_values_without_a_view_are_shown_as_text() -> None:
    assert html_of(object()) is None
