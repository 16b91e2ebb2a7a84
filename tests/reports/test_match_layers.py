"""Two runs side by side: matching of layers, and files that cannot be compared."""

from dataclasses import replace

import pytest
from click.testing import CliRunner
from drawn_runs import SCRIPT, program_of_script
from error_checks import check_mentions, raises

import lathe as lt
from lathe.command_line import main
from lathe.reports.comparison_page import pair_page
from lathe.reports.errors import ReportError
from lathe.reports.match_layers import LayerPair, paired_layers
from lathe.reports.result_file import write_result
from lathe.reports.run_model import Layer, Run, run_of_results
from lathe.reports.run_summary import totals
from lathe.sweeps.store import writing_store

VTA = lt.load_config("vta")


def run_with(*names, name="r"):
    return Run(name, VTA, (), tuple(Layer(each, "host", "it is so") for each in names))


@pytest.fixture(scope="module")
def kept(tmp_path_factory):
    """The script's program for two machines, as programs, and the result of the first."""
    folder = tmp_path_factory.mktemp("kept")
    for config in ("vta", "wide"):
        program_of_script(config).save(folder / f"{config}.npz")
    program = program_of_script()
    write_result(folder / "result.npz", program, [lt.simulate(program, timing_only=True)])
    (folder / "s.py").write_text(SCRIPT)
    return folder


def refused(tmp_path, *words):
    done = CliRunner().invoke(main, ["report", *map(str, words), "-o", str(tmp_path / "page.html")])
    assert (done.exit_code, done.stdout) == (2, "")
    assert not (tmp_path / "page.html").exists()
    assert done.stderr.count("\n") == 1
    return done.stderr.removeprefix("Error: ").removesuffix("\n")


def test_layers_are_matched_by_name_and_others_inserted_in_order():
    first, second = run_with("a", "b", "a", "d"), run_with("x", "a", "y", "b", "z", "d", "d")
    assert paired_layers(first, second) == (
        LayerPair("x", None, 0),
        LayerPair("a", 0, 1),
        LayerPair("y", None, 2),
        LayerPair("b", 1, 3),
        LayerPair("z", None, 4),
        LayerPair("a", 2, None),
        LayerPair("d", 3, 5),
        LayerPair("d", None, 6),
    )


def test_runs_without_a_common_layer_are_refused():
    names = [f"n{number}" for number in range(6)]
    first, second = run_with("a", "</b>", name="one.npz"), run_with(*names, name="two.npz")
    mentions = ("one.npz has 'a', '</b>'", "two.npz has 'n0', 'n1', 'n2', 'n3' and 2 more")
    raises(ReportError, paired_layers, first, second, mentions=mentions)
    first, second = run_with(name="one.npz"), run_with(name="two.npz")
    raises(ReportError, paired_layers, first, second, mentions=("one.npz has none",))


def test_totals_of_both_runs_are_side_by_side():
    first, second = (
        run_of_results(name, [lt.simulate(program_of_script(name), timing_only=True)]) for name in ("vta", "wide")
    )
    text = pair_page(first, second).html()
    known = {each.name: each for each in totals(second)}
    assert [each.name for each in totals(first)][:2] == ["cycles", "instructions"]
    for own in totals(first):
        assert f'<th scope="row">{own.name}</th><td class="number">{own.text}</td>' in text.replace("&#x27;", "'")
        assert f'<td class="number">{known[own.name].text}</td>' in text
    difference = f"{second.cycles - first.cycles:+,}".replace(",", "\u202f").replace("-", "−")
    assert f'<td class="number">{difference}</td>' in text
    assert f'<td class="number">{second.cycles / first.cycles:.3f}</td>' in text
    assert '<th scope="row">block_out</th>' in text
    assert "Both ran on the same machine" in pair_page(first, replace(first, name="again")).html()


def test_a_result_a_program_and_a_script_are_compared(kept, tmp_path):
    page = tmp_path / "page.html"
    for pair in (["result.npz", "wide.npz"], ["s.py", "result.npz", "-c", "wide"], ["vta.npz", "vta.npz"]):
        words = [str(kept / word) if "." in word else word for word in pair]
        done = CliRunner().invoke(main, ["report", *words, "-o", str(page)])
        assert (done.exit_code, done.output) == (0, "")
        titles = [str(kept / word) if pair[0] == pair[1] else word for word in pair[:2]]
        assert f"<title>{titles[0]} and {titles[1]}</title>" in page.read_text()


def test_files_that_cannot_be_compared_are_refused_and_nothing_is_written(kept, tmp_path):
    a, b = kept / "vta.npz", kept / "wide.npz"
    check_mentions(refused(tmp_path, a, b, a), "one file", "two to compare", "not 3")
    message = refused(tmp_path, a, b, "-c", "tiny")
    check_mentions(message, "-c", f"{str(a)!r} and {str(b)!r}", "not 'tiny'", "each includes its machine")
    check_mentions(refused(tmp_path, a, b, "--shape", "x=1"), "--shape must be left out", "MODEL.onnx")
    with writing_store(tmp_path / "r.db"):
        pass
    for words in ((a, tmp_path / "r.db"), (tmp_path / "r.db", a), (tmp_path / "r.db", tmp_path / "r.db")):
        check_mentions(refused(tmp_path, *words), repr(str(tmp_path / "r.db")), "store of a sweep", "Give it alone")
    other = tmp_path / "other.py"
    other.write_text(SCRIPT.replace('name="D"', 'name="E"'))
    check_mentions(refused(tmp_path, a, other), "vta.npz has 'D'", "other.py has 'E'")
    (tmp_path / "damaged.npz").write_bytes((kept / "result.npz").read_bytes()[:-200])
    assert "must be a program saved by Lathe, but is another file or truncated" in refused(
        tmp_path, a, tmp_path / "damaged.npz"
    )
    (tmp_path / "x.txt").write_text("nothing")
    assert "and is none of these" in refused(tmp_path, a, tmp_path / "x.txt")
    check_mentions(refused(tmp_path, tmp_path / "none.npz", a), "Cannot read the file", "none.npz")
