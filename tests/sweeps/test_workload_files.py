"""Workloads in files: models, SCALE-Sim's topologies, functions in Python."""

from pathlib import Path

import pytest
from error_checks import check_mentions, raises
from qdq_models import QdqModel

import lathe as lt
import lathe.sweeps.energy
import lathe.sweeps.script_dependencies as script_dependencies
from lathe.scripts import functions_of
from lathe.sweeps.errors import SweepError
from lathe.sweeps.execution import options_of
from lathe.sweeps.keys import point_key
from lathe.sweeps.measurement import measure
from lathe.sweeps.parse_sweep import read_sweep
from lathe.sweeps.workload_types import check_takes
from lathe.sweeps.workloads import known_workloads, make

SCRIPT = """
import lathe as lt
from beside import WIDTH

def build(cfg, rows):
    A = lt.placeholder((rows, WIDTH), "int8", name="A")
    return lt.relu(A, name="B")

def built(cfg, rows):
    A = lt.placeholder((rows, WIDTH), "int8", name="A")
    B = lt.relu(A, name="B")
    return lt.build(B, [A, B], cfg)

def network(cfg):
    return lt.from_onnx("{model}")

def nothing(cfg):
    pass

def faulty(cfg):
    raise ValueError("no such thing")

def leaving(cfg):
    raise SystemExit(3)
"""
TOPOLOGY = """Layer name, IFMAP Height, IFMAP Width, Filter Height, Filter Width, Channels, Num Filter, Strides,
Conv1, 11, 11, 3, 3, 3, 16, 2,
Conv2, 6, 7, 1, 3, 16, 8, 1,
"""
GEMM = "Layer, M, N, K,\nfirst, 4, 16, 32,\n"


@pytest.fixture
def folder(tmp_path):
    graph = QdqModel()
    model = graph.model(graph.conv(graph.input(1, 3, 6, 6), 8, relu=True))
    (tmp_path / "model.onnx").write_bytes(model.SerializeToString())
    (tmp_path / "layers.csv").write_text(TOPOLOGY)
    (tmp_path / "products.csv").write_text(GEMM)
    (tmp_path / "beside.py").write_text("WIDTH = 16\n")
    (tmp_path / "mine.py").write_text(SCRIPT.replace("{model}", str(tmp_path / "model.onnx")))
    return tmp_path


def read(folder, text):
    (folder / "sweep.yaml").write_text("base: lathe16\n" + text)
    return read_sweep(folder / "sweep.yaml", known_workloads(), make)


def test_the_file_in_the_documentation_is_valid(folder):
    page = (Path(lathe.sweeps.energy.__file__).resolve().parents[2] / "docs" / "design-space-exploration.md").read_text(
        encoding="utf-8"
    )
    text = page.partition("```yaml file=everything.yaml\n")[2].partition("```")[0]
    graph = QdqModel()
    model = graph.model(graph.conv(graph.input(1, 3, 224, 224, name="image"), 8))
    (folder / "resnet18.onnx").write_bytes(model.SerializeToString())
    (folder / "alexnet.csv").write_text(TOPOLOGY)
    (folder / "mine_energy.yaml").write_bytes(lathe.sweeps.energy.OWN.read_bytes())
    (folder / "mine.py").write_text("def build(machine, n=1): ...\n")
    (folder / "sweep.yaml").write_text(text)
    sweep = read_sweep(folder / "sweep.yaml", known_workloads(), make)
    assert len(sweep.workloads) == 4
    assert (sweep.machine.count, sweep.shared, sweep.sample.points) == (3 * 4 * 3 * 2 * 2, True, 100)
    (folder / "sweep.yaml").write_text(text.replace("sample:", "# sample:").replace("# search:", "search:"))
    assert read_sweep(folder / "sweep.yaml", known_workloads(), make).search.objectives == ("time_us", "energy_pj")


def measured(folder, text, check=True):
    return [measure(point, check) for point in read(folder, text).points()]


def test_a_model_has_the_cycles_of_its_network(folder):
    (row,) = measured(folder, "workloads:\n  - onnx: {path: model.onnx}\n")
    program = lt.from_onnx(folder / "model.onnx").build(lt.load_config("lathe16"))
    result = lt.simulate(program, timing_only=True)
    assert (row.status, row.numbers["cycles"]) == ("ok", result.cycles)
    npu = [each for each in result.layers if each.where == "npu"]
    assert row.numbers["bound_cycles"] == sum(each.bound for each in npu)
    assert row.numbers["host_nodes"] == len(result.layers) - len(npu)
    assert row.numbers["macs"] == program.parts[0].products


def test_every_layer_of_a_topology_is_a_workload(folder):
    rows = measured(folder, "workloads:\n  - topology: {path: layers.csv}\n  - topology: {path: products.csv}\n")
    assert [row.point.parameters["layer"] for row in rows] == ["Conv1", "Conv2", "first"]
    assert [row.status for row in rows] == ["ok"] * 3
    assert [row.numbers["macs"] for row in rows] == [5 * 5 * 3 * 3 * 3 * 16, 6 * 5 * 3 * 16 * 8, 4 * 16 * 32]


HEAD = "Layer name, IFMAP Height, IFMAP Width, Filter Height, Filter Width, Channels, Num Filter, "
LINE = "Conv1, 11, 9, 3, 3, 4, 8, 2,"
# Variants of the format, and the MACs of their layer.
FORMS = {
    "without trailing commas": (HEAD + "Strides\n" + LINE[:-1] + "\n", 5 * 4 * 3 * 3 * 4 * 8),
    "without spaces": ((HEAD + "Strides,\n" + LINE).replace(", ", ","), 5 * 4 * 3 * 3 * 4 * 8),
    "lines of commas and of nothing": (HEAD + "Strides,\n\n" + LINE + "\n,,,,,,,,\n\n", 5 * 4 * 3 * 3 * 4 * 8),
    "line ends of Windows": ("\ufeff" + HEAD + "Strides,\r\n" + LINE + "\r\n", 5 * 4 * 3 * 3 * 4 * 8),
    "two strides by name": (HEAD + "Stride height, Stride width,\n" + LINE + " 1,\n", 5 * 7 * 3 * 3 * 4 * 8),
    "two strides without a name": (HEAD + "Strides,\n" + LINE + " 1,\n", 5 * 7 * 3 * 3 * 4 * 8),
    "a remark after the stride": (HEAD + "Strides,\n" + LINE + "#dw\n", 5 * 4 * 3 * 3 * 4 * 8),
    "a ratio of sparsity": (HEAD + "Strides, Sparsity,\n" + LINE + " 2:4,\n", 5 * 4 * 3 * 3 * 4 * 8),
    "another number after the stride": (HEAD + "Strides, Batch,\n" + LINE + " 1,\n", 5 * 4 * 3 * 3 * 4 * 8),
    "a depthwise layer": (HEAD + "Strides,\n" + LINE.replace("Conv1", "Conv1_DP"), 5 * 4 * 3 * 3 * 4 * 8),
    "a matmul of M, N and K": ("Layer,M,N,K,\nfirst,4,16,32,\n", 4 * 16 * 32),
    "a batch": (HEAD + "Strides, Batch Size,\n" + LINE + " 8,\n", 8 * 5 * 4 * 3 * 3 * 4 * 8),
    "other names": (HEAD.replace("IFMAP", "Input") + "Stride, Notes\n" + LINE + " first\n", 5 * 4 * 3 * 3 * 4 * 8),
    "other names and two strides": ("Layer, H, W, R, S, C, K, Stride,\n" + LINE + " 1,\n", 5 * 7 * 3 * 3 * 4 * 8),
    "a matmul with other names": ("name, rows, columns, depth,\nfirst, 4, 16, 32,\n", 4 * 16 * 32),
    "a dilation of 1 and no padding": (
        HEAD + "Strides, Dilation, Padding,\n" + LINE + " 1, 0\n",
        5 * 4 * 3 * 3 * 4 * 8,
    ),
    "a matmul of M, K and N": ("Layer, M, K, N\nfirst, 4, 32, 16\n", 4 * 16 * 32),
}


@pytest.mark.parametrize("form", FORMS)
def test_all_variants_of_topologies_are_read(folder, form):
    text, macs = FORMS[form]
    (folder / "t.csv").write_bytes(text.encode())
    (row,) = measured(folder, "workloads:\n  - topology: {path: t.csv}\n")
    assert (row.status, row.numbers["macs"]) == ("ok", macs)


def test_a_depthwise_layer_has_filters_for_each_channel(folder):
    (folder / "t.csv").write_text(FORMS["a depthwise layer"][0])
    assert make("topology", {"path": str(folder / "t.csv"), "layer": "Conv1_DP"}).outputs[0].shape == (1, 5, 4, 4 * 8)


def test_layers_may_have_equal_names(folder):
    (folder / "t.csv").write_text("Layer, M, N, K\nfc, 4, 16, 32\nfc, 4, 16, 16\nfc, 2, 16, 16\n")
    rows = measured(folder, "workloads:\n  - topology: {path: t.csv}\n")
    assert [row.point.parameters["layer"] for row in rows] == ["fc", "fc 2", "fc 3"]
    assert [row.numbers["macs"] for row in rows] == [4 * 16 * 32, 4 * 16 * 16, 2 * 16 * 16]


def test_a_layer_of_a_topology_may_be_named(folder):
    rows = measured(folder, "workloads:\n  - topology: {path: layers.csv, layer: Conv2}\n")
    assert [row.point.parameters["layer"] for row in rows] == ["Conv2"]


@pytest.mark.parametrize("function", ["build", "network"])
def test_a_function_returns_what_is_measured(folder, function):
    parameters = "rows: [4, 8]" if function == "build" else ""
    rows = measured(folder, f"workloads:\n  - python: {{path: mine.py, function: {function}, {parameters}}}\n")
    assert [row.status for row in rows] == ["ok"] * (2 if function == "build" else 1)


def test_modules_that_a_script_imports_are_reloaded(folder):
    text = "workloads:\n  - python: {path: mine.py, rows: 4}\n"
    (first,) = measured(folder, text)
    (folder / "beside.py").write_text("WIDTH = 160\n")
    (second,) = measured(folder, text)
    assert second.numbers["bytes_written"] == 10 * first.numbers["bytes_written"]


def test_a_built_program_is_measured_and_cannot_be_checked(folder):
    text = "workloads:\n  - python: {path: mine.py, function: built, rows: 4}\n"
    (row,) = measured(folder, text, check=False)
    assert row.status == "ok"
    assert "bound_cycles" not in row.numbers
    (row,) = measured(folder, text)
    assert row.status == "unmappable"
    check_mentions(row.reason, "workload python", "NumPy", "--check")


def test_an_error_in_a_function_becomes_a_row(folder):
    rows = measured(folder, "workloads:\n  - python: {path: mine.py, function: [nothing, faulty, leaving]}\n")
    assert [row.status for row in rows] == ["unmappable", "internal error", "internal error"]
    check_mentions(rows[0].reason, f"nothing of script {folder / 'mine.py'}", "not None")
    assert rows[1].reason.endswith("ValueError: no such thing")
    assert rows[2].reason.endswith("SystemExit: 3")


# fmt: off
WRONG = {
    "a missing model": ("onnx: {path: none.onnx}", "Workload onnx of "),
    "an invalid model": ("onnx: {path: mine.py}", "Workload onnx of "),
    "a path that is a number": ("onnx: {path: 3}", "Parameter path of onnx of "),
    "no path": ("onnx: {shapes: 'x=1'}", "Workload onnx of "),
    "invalid shapes": ("onnx: {path: model.onnx, shapes: 'x'}", "Workload onnx of "),
    "a missing topology": ("topology: {path: none.csv}", "Workload topology of "),
    "an invalid topology": ("topology: {path: mine.py}", "Workload topology of "),
    "an unknown layer": ("topology: {path: layers.csv, layer: Conv3}", "Workload topology of "),
    "a missing script": ("python: {path: none.py}", "Workload python of "),
    "an invalid script": ("python: {path: layers.csv}", "Workload python of "),
    "a missing named file": ("python: {path: mine.py, rows: 4, files: none.npz}", "Workload python of "),
    "an unknown parameter": ("python: {path: mine.py, rows: 4, cols: [1, 2]}", "Workload python of "),
    "no parameter": ("python: {path: mine.py}", "Workload python of "),
    "an unknown function": ("python: {path: mine.py, function: main}", "Workload python of "),
}
# fmt: on


@pytest.mark.parametrize("mistake", WRONG)
def test_an_invalid_workload_is_reported_with_line_and_key(folder, mistake):
    text, message = WRONG[mistake]
    with pytest.raises(SweepError) as caught:
        read(folder, f"workloads:\n  - relu: {{height: 1, width: 1, channels: 1}}\n  - {text}\n")
    assert str(caught.value).startswith(f"{message}{folder / 'sweep.yaml'}, line 4, ")
    assert caught.value.line == 4
    assert caught.value.key is not None


@pytest.mark.parametrize(
    ("text", "mentions"),
    [
        ("def f(m): ...", ("'n'", "only the machine")),
        ("def f(m, k=1, *, q): ...", ("'n'", "k, q")),
        ("def f(m, n, k, j=1): ...", ("without parameter 'k'", "no default")),
        ("def f(): ...", ("first parameter", "machine")),
        ("def f(n, /): ...", ("'n'", "only the machine")),
        *[
            (f"def f{each}: ...", None)
            for each in ("(m, n)", "(m, *, n)", "(m, **rest)", "(m, n=1, *, k=2)", "(*all, n)")
        ],
        ("@cut\ndef f(m): ...", None),
    ],
)
def test_a_function_takes_the_machine_and_its_parameters(text, mentions):
    function = functions_of(text.encode(), Path("s.py"))["f"]
    if mentions is None:
        check_takes(function, "s.py", ["n"])
        return
    raises(SweepError, check_takes, function, "s.py", ["n"], mentions=("f of script s.py", *mentions))


COLUMNS = (
    "Layer name, IFMAP Height, IFMAP Width, Filter Height, Filter Width, Channels, Num Filter, Strides",
    "Layer, M, N, K",
)


@pytest.mark.parametrize(
    ("content", "line", "mentions"),
    [
        ("", None, ("column names", "empty")),
        ("a,b\n1,2\n", None, (*COLUMNS, "not a, b")),
        (GEMM + "second, 4, x, 32,\n", 3, ("n", "at least 1", "not 'x'")),
        (GEMM + f"second, 4, {'9' * 5000}, 32,\n", 3, ("n", "at least 1", f"not '{'9' * 56}...")),
        (GEMM + "second, 4\n", 3, ("n", "at least 1", "not ''")),
        (COLUMNS[0] + ", Dilation\nConv1, 11, 9, 3, 3, 4, 8, 2, 2\n", 2, ("dilation", "0 or 1", "not '2'")),
        (COLUMNS[0] + ", Padding\nConv1, 11, 9, 3, 3, 4, 8, 2, 1\n", 2, ("padding", "0", "not '1'")),
        ("Layer, M, N, K, Batch\nfc, 4, 16, 32, 8\n", 2, ("batch", "0 or 1", "not '8'")),
        ("name, a, b, c, d\nfc, 4, 16, 32, 8\n", None, (*COLUMNS, "name, a, b, c, d")),
        ("Layer, M, N, K\n", None, ("at least one layer", "column names")),
    ],
)
def test_an_invalid_topology_is_refused_with_its_line(tmp_path, content, line, mentions):
    path = tmp_path / "t.csv"
    path.write_text(content)
    where = f"{path}, line {line}" if line else f"topology {path}"
    text = "workloads:\n  - topology: {path: t.csv}\n"
    raises(SweepError, read, tmp_path, text, mentions=(where, *mentions))


def test_the_key_of_a_point_includes_the_content_of_its_files(folder):
    texts = [
        "onnx: {path: model.onnx}",
        "python: {path: mine.py, rows: 4}",
        "topology: {path: layers.csv, layer: Conv1}",
    ]

    def keys():
        sweep = read(folder, "workloads:\n" + "".join(f"  - {text}\n" for text in texts))
        return [point_key(point, options_of(sweep)) for point in sweep.points()]

    first = keys()
    assert len(set(first)) == 3
    assert keys() == first
    (folder / "other.onnx").write_bytes((folder / "model.onnx").read_bytes())
    texts[0] = "onnx: {path: other.onnx}"
    assert [keys()[0], keys()[2]] == [first[0], first[2]]  # the script may read the new file
    graph = QdqModel(1)
    (folder / "other.onnx").write_bytes(graph.model(graph.conv(graph.input(1, 3, 6, 6), 8)).SerializeToString())
    (folder / "beside.py").write_text("WIDTH = 32\n")
    (folder / "layers.csv").write_text(TOPOLOGY.replace("11, 11", "13, 13"))
    assert not set(keys()) & set(first)


def key_of(folder, text="path: mine.py, rows: 4"):
    sweep = read(folder, f"workloads:\n  - python: {{{text}}}\n")
    (point,) = sweep.points()
    return point_key(point, options_of(sweep))


def written(path, content="data"):
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(content)


@pytest.mark.parametrize("name", ["weights.npz", "below/weights.npz", "below/deeper/helper.py", "machine.yaml"])
def test_the_key_of_a_script_includes_all_files_of_its_folder(folder, name):
    before = key_of(folder)
    written(folder / name)
    there = key_of(folder)
    written(folder / name, "more")
    assert len({before, there, key_of(folder)}) == 3
    (folder / name).unlink()
    assert key_of(folder) == before


@pytest.mark.parametrize(
    "name",
    ["r.db", "r.db-wal", "r.db-shm", "R.SQLITE", ".hidden", ".git/index", "__pycache__/mine.pyc", "sweep.yaml"],
)
def test_the_key_of_a_script_does_not_include_stores_hidden_files_and_sweep_files(folder, name):
    before = key_of(folder)
    if name != "sweep.yaml":
        written(folder / name)
    written(folder / "other.yaml", "base: vta\nworkloads: [relu: {height: 1, width: 1, channels: 1}]\n")
    assert key_of(folder) == before


def test_if_files_are_named_only_these_and_python_files_count(folder, tmp_path_factory):
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    written(elsewhere / "weights.npz")
    written(elsewhere / "tables" / "one.csv")
    named = f"path: mine.py, rows: 4, files: '{elsewhere}/weights.npz {elsewhere}/tables'"
    found = [key_of(folder, named)]
    for path in (elsewhere / "weights.npz", elsewhere / "tables" / "one.csv", folder / "beside.py"):
        written(path, path.read_text() + "#")
        found.append(key_of(folder, named))
    assert len({*found, key_of(folder)}) == 5
    written(folder / "log.txt")
    assert key_of(folder, named) == found[-1]
    (elsewhere / "weights.npz").unlink()
    mentions = (f"script {str(folder / 'mine.py')!r}", f"not '{elsewhere}/weights.npz'")
    raises(SweepError, key_of, folder, named, mentions=mentions)


@pytest.mark.slow
def test_too_many_dependencies_are_refused_if_rows_are_stored(folder, monkeypatch):
    monkeypatch.setattr(script_dependencies, "MOST_FILES", 4)
    written(folder / "weights.npz")
    (folder / "sweep.yaml").write_text("workloads:\n  - python: {path: mine.py, rows: 4}\n")
    mentions = (f"script {str(folder / 'mine.py')!r}", "4 files", "1024 MiB", "files: 'mine.py weights.npz'")
    raises(SweepError, lt.sweep, folder / "sweep.yaml", output=folder / "r.db", jobs=1, mentions=mentions)
    assert lt.sweep(folder / "sweep.yaml", jobs=1)[0]["status"] == "ok"
    (folder / "sweep.yaml").write_text("workloads:\n  - python: {path: mine.py, rows: 4, files: mine.py}\n")
    assert lt.sweep(folder / "sweep.yaml", output=folder / "r.db", jobs=1)[0]["status"] == "ok"


def test_the_key_of_a_script_includes_the_versions_of_imported_packages(folder, monkeypatch):
    before = key_of(folder)
    monkeypatch.setattr(script_dependencies, "version", lambda name: f"{name} 99")
    script_dependencies._versions.cache_clear()
    assert key_of(folder) == before  # it imports only Lathe, whose sources are hashed separately
    written(folder / "beside.py", "import numpy as np\nWIDTH = 16\n")
    changed = key_of(folder)
    monkeypatch.undo()
    script_dependencies._versions.cache_clear()
    assert key_of(folder) != changed


@pytest.mark.parametrize("package", [True, False])
def test_modules_in_subfolders_of_a_script_are_reloaded(folder, package):
    if package:
        written(folder / "inner" / "__init__.py", "")
    written(folder / "inner" / "width.py", "WIDTH = 16\n")
    (folder / "mine.py").write_text(SCRIPT.replace("from beside", "from inner.width"))
    text = "workloads:\n  - python: {path: mine.py, rows: 4}\n"
    (first,) = measured(folder, text)
    written(folder / "inner" / "width.py", "WIDTH = 160\n")
    (second,) = measured(folder, text)
    assert second.numbers["bytes_written"] == 10 * first.numbers["bytes_written"]


def test_rows_are_measured_again_if_data_of_their_script_change(folder):
    (folder / "mine.py").write_text(SCRIPT.replace("from beside import WIDTH", WIDTH_FROM_DATA))
    written(folder / "width.txt", "16")
    (folder / "sweep.yaml").write_text("workloads:\n  - python: {path: mine.py, rows: [4, 8]}\n")
    first = lt.sweep(folder / "sweep.yaml", output=folder / "r.db", jobs=1)
    assert lt.sweep(folder / "sweep.yaml", output=folder / "r.db", jobs=1) == first
    written(folder / "width.txt", "160")
    second = lt.sweep(folder / "sweep.yaml", output=folder / "r.db", jobs=1)
    assert [row["bytes_written"] for row in second] == [10 * row["bytes_written"] for row in first]


@pytest.mark.slow
def test_rows_whose_files_change_during_the_measurement_are_measured_again(folder):
    """The script edits its own data once, so that it is unknown which version was measured."""
    (folder / "mine.py").write_text(
        SCRIPT.replace("from beside import WIDTH", WIDTH_FROM_DATA + "\n(HERE / 'width.txt').write_text('32')")
    )
    written(folder / "width.txt", "16")
    (folder / "sweep.yaml").write_text("workloads:\n  - python: {path: mine.py, rows: 4}\n")
    (first,) = lt.sweep(folder / "sweep.yaml", output=folder / "r.db", jobs=1)
    assert first["status"] == "files changed"
    check_mentions(first["reason"], "'width.txt'", "changed", "Run the sweep again", "files")
    (second,) = lt.sweep(folder / "sweep.yaml", output=folder / "r.db", jobs=1)
    assert (second["status"], second["bytes_written"]) == ("ok", 4 * 32)
    assert lt.sweep(folder / "sweep.yaml", output=folder / "r.db", jobs=1) == [second]


def test_files_next_to_a_link_to_a_script_count(folder, tmp_path_factory):
    elsewhere = tmp_path_factory.mktemp("elsewhere")
    (elsewhere / "mine.py").symlink_to(folder / "mine.py")
    linked = f"path: {elsewhere}/mine.py, rows: 4"
    first = key_of(folder, linked)
    written(elsewhere / "weights.npz")
    second = key_of(folder, linked)
    written(folder / "weights.npz")
    assert len({first, second, key_of(folder, linked)}) == 3


WIDTH_FROM_DATA = """from pathlib import Path
HERE = Path(__file__).parent
WIDTH = int((HERE / "width.txt").read_text())"""
