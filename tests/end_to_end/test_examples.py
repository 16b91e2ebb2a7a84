"""The example scripts run unchanged from any folder, and check their own results."""

import json
import runpy
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]


SWEEPING = {"sweep_resnet18.py": ["--pixels", "32", "--check"], "smallest_machine.py": ["--microseconds", "200"]}
"""Scripts that name their machines themselves, and their arguments."""
OF_NETWORKS = {"read_text.py"}  # tested in tests/networks
SCRIPTS = [path for path in sorted((ROOT / "examples").glob("*.py")) if path.name not in {*SWEEPING, *OF_NETWORKS}]


MACHINES = ("vta", "tiny", "wide", "batch4")
TOO_LARGE = {("tail", "tiny")}
"""Scripts with manual tiles that exceed a scratchpad of the machine."""


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    ("script", "machine"),
    [
        pytest.param(script, machine, id=f"{script.stem}-{machine}")
        for script in SCRIPTS
        for machine in MACHINES
        if (script.stem, machine) not in TOO_LARGE
    ],
)
def test_an_example_runs(
    script: Path, machine: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", [str(script), machine])
    runpy.run_path(str(script), run_name="__main__")
    assert "equal to NumPy" in capsys.readouterr().out


@pytest.mark.slow
@pytest.mark.parametrize("script", ["smallest_machine.py", pytest.param("sweep_resnet18.py", marks=pytest.mark.slow)])
def test_an_example_sweeps(script: str, tmp_path: Path) -> None:
    command = [sys.executable, str(ROOT / "examples" / script), *SWEEPING[script]]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=tmp_path)
    assert "equal to NumPy" in done.stdout


def test_the_own_rule_fires_on_body_and_tail(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(sys, "argv", ["own_rule.py"])
    runpy.run_path(str(ROOT / "examples" / "own_rule.py"), run_name="__main__")
    calls = [line for line in capsys.readouterr().out.splitlines() if line.startswith("rule called")]
    assert calls == [
        "rule called for B.acc.map(ii in 0..256) at io=0",
        "rule called for B.acc.map(ii in 0..256) at io=1",
        "rule called for B.acc.map(ii in 0..256) at io=2",
        "rule called for B.acc.map(ii in 0..192) at io=3",
    ]


@pytest.mark.slow
@pytest.mark.parametrize("benchmark", ["end_to_end.py", pytest.param("schedules.py", marks=pytest.mark.slow)])
def test_benchmarks_print_their_figures_in_the_common_form(benchmark: str, tmp_path: Path) -> None:
    command = [sys.executable, str(ROOT / "benchmarks" / benchmark), "--json"]
    done = subprocess.run(command, capture_output=True, text=True, check=True, cwd=tmp_path)
    figures = json.loads(done.stdout)
    assert figures
    for figure in figures:
        assert list(figure) == ["name", "value", "unit", "target", "met"]
    unmeasured = [figure for figure in figures if figure["name"] == "commands not measured"]
    assert all(figure["value"] == 0 for figure in unmeasured)
