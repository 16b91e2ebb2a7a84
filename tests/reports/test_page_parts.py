"""Parts of pages: escaping of text, encoding of arrays and lines, and consistent occupancy."""

import base64
import html
import json
import zlib
from dataclasses import replace

import numpy as np
import pytest
from drawn_runs import program_of_script
from error_checks import raises

import lathe as lt
from lathe.cycle_attribution import ACTIVITIES
from lathe.isa.stall import TRACK_NAMES
from lathe.isa.table import Opcode, Unit
from lathe.reports import extra
from lathe.reports.columns import column, packed, packed_lines
from lathe.reports.errors import ReportError
from lathe.reports.markup import Markup, element, json_in_script
from lathe.reports.memory_use import memory_use
from lathe.reports.occupancy import occupancy_of
from lathe.reports.page import POLICY, Page

HOSTILE = "</script><!--&\u2028'\""


@pytest.fixture(scope="module")
def result():
    return lt.simulate(program_of_script(), timing_only=True)


def test_children_and_attributes_of_elements_are_escaped():
    made = element("td", HOSTILE, Markup("<b>x</b>"), None, 3, title='"<', data_row=1, hidden=True, open=False)
    assert made == (
        '<td title="&quot;&lt;" data-row="1" hidden>&lt;/script&gt;&lt;!--&amp;\u2028&#x27;&quot;<b>x</b>3</td>'
    )


def test_json_cannot_end_its_script_and_means_the_same():
    value = {HOSTILE: [HOSTILE, 1.5, None, np.int64(7)]}
    text = json_in_script(value)
    assert not {*text} & {*"<>&\u2028"}
    assert json.loads(text) == {HOSTILE: [HOSTILE, 1.5, None, 7]}


def test_the_data_of_a_page_are_embedded_once():
    text = Page(HOSTILE, HOSTILE, [element("p", HOSTILE)], {"run": {"name": HOSTILE}}).html()
    assert text.count("</script>") == text.count("<script") == 3  # the data, the library, the first script
    assert html.escape(f'content="{POLICY}"', quote=False).replace("'", "&#x27;") in text


@pytest.mark.parametrize(
    ("values", "name"),
    [
        ([1, -2], "i1"),
        ([255, 0], "u1"),
        ([-1, 300], "i2"),
        ([40000], "u2"),
        ([1 << 20], "i4"),
        ([1 << 40], "f8"),
        ([0.5], "f8"),
        ([True, False], "i1"),
        ([], "f8"),
    ],
)
def test_columns_take_as_few_bytes_as_hold_their_values(values, name):
    array = np.array(values)
    for made, content in (
        (column(array), lambda made: base64.b64decode(made["bdata"])),
        (packed(array), lambda made: zlib.decompress(base64.b64decode(made["deflated"]))),
    ):
        assert made["dtype"] == name
        assert np.frombuffer(content(made), f"<{name}").tolist() == values


def test_line_breaks_within_lines():
    made = packed_lines(["a", "b\nc", "", "ü"])
    assert zlib.decompress(base64.b64decode(made["deflated"])).decode() == "a\nb c\n\nü"


def test_error_without_the_plotting_library(monkeypatch):
    def missing(_):
        raise ImportError("No module named 'plotly'")

    monkeypatch.setattr(extra, "import_module", missing)
    mentions = ("package 'plotly'", "No module named 'plotly'", "pip install 'lathe-npu[reports]'")
    raises(ReportError, Page("x", "", []).html, mentions=mentions)


def test_units_are_occupied_as_the_counters_say(result):
    found = occupancy_of(result)
    for number, unit in enumerate(TRACK_NAMES[:3]):
        own = found.unit == number
        begin, boundary = found.begin[own], found.boundary[own]
        assert (begin[1:] >= boundary[:-1]).all()
        assert (begin - np.concatenate(([0], boundary[:-1])) == found.stalled[own]).all()
        assert (boundary - begin - found.waited[own]).sum() == result.counters.units[unit].busy
    assert found.dispatch.tolist() == result.trace.of_unit("fetch").start.tolist()
    kinds = {ACTIVITIES[kind] for kind in found.activity.tolist()}
    assert kinds == {*ACTIVITIES}


def test_a_value_is_live_from_its_write_to_its_last_read(result):
    found = occupancy_of(result)
    use = memory_use(result.program, found)
    assert {*use} == {"inp", "wgt", "acc"}
    columns = result.program.columns
    gemm = np.flatnonzero((columns.opcode == Opcode.GEMM) & (columns["reset"] == 0))
    loads = (columns.unit == Unit.LOAD) & (columns["memory_type"] == lt.MemoryType.WGT)
    weights = int(np.flatnonzero(loads)[0])
    # All 24 vectors of weights are loaded once and read by the last GEMM.
    cycles, used = use["wgt"]
    assert (cycles.tolist(), used.tolist()) == ([found.begin[weights], found.end[gemm[-1]] + 1], [24, 0])
    # Rows are in two buffers of 16 and of 12 rows, 4 vectors each.
    assert use["inp"][1].max() == 128
    assert use["acc"][1].max() == 192
    for cycles, used in use.values():
        assert (np.diff(cycles) > 0).all()
        assert used.min() >= 0
        assert used[-1] == 0


def test_page_of_a_program_without_instructions(result):
    program = replace(result.program, instructions=(lt.Finish(),), label_of=np.zeros(1, np.int32))
    found = occupancy_of(lt.simulate(program, timing_only=True))
    assert found.unit.tolist() == [TRACK_NAMES.index("compute")]
    assert memory_use(program, found) == {}
