"""Sweeps that are killed or stopped: no row is lost or repeated, and no process remains."""

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from click.testing import CliRunner
from error_checks import check_mentions

from lathe.command_line import main
from lathe.sweeps.errors import SweepError
from lathe.sweeps.run_sweep import flat_rows
from lathe.sweeps.store import reading_store
from lathe.sweeps.tables import SECONDS

GRID = """
machine:
  memory.latency: [0, 8, 16, 32, 64, 128]
  memory.bus_bits: [64, 128]
workloads:
  - conv2d: {height: [14, 15], width: 14, channels: 32, filters: 32, padding: 1}
"""
MANY = GRID.replace("[14, 15]", str([*range(10, 22)]))
"""A grid that is large enough to be stopped before it is done."""
SAMPLE = GRID + "sample: {points: 17, seed: 5}\n"
COMMAND = [sys.executable, "-c", "from lathe.command_line import main; main()", "sweep"]
MARK = "LATHE_TEST_OF_KILLS"

pytestmark = pytest.mark.skipif(not Path("/proc/self/environ").exists(), reason="processes are found in /proc")


def started(folder, text, *words, **options):
    (folder / "sweep.yaml").write_text(text)
    marked = {**os.environ, MARK: str(folder), "LATHE_CACHE": str(folder / "cache")}
    command = [*COMMAND, str(folder / "sweep.yaml"), "-o", str(folder / "r.db"), *words]
    return subprocess.Popen(command, env=marked, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, **options)


def processes(folder):
    """The processes of a sweep, whatever their parent."""
    sign = f"{MARK}={folder}".encode()
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        try:
            state = (path / "stat").read_text().rpartition(")")[2].split()[0]
            if sign in (path / "environ").read_bytes().split(b"\0") and state != "Z":
                found.append(int(path.name))
        except OSError:
            continue
    return found


def rows_of(folder):
    """The rows so far, without values that differ from run to run."""
    try:
        with reading_store(folder / "r.db") as store:
            rows = flat_rows(store.rows())
    except SweepError:
        return []
    return [{key: value for key, value in row.items() if key != SECONDS} for row in rows]


def wait_for(condition, seconds=120):
    end = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < end, "it took too long"
        time.sleep(0.02)


def undisturbed(folder, text):
    """The rows of a sweep on one process."""
    folder.mkdir()
    (folder / "sweep.yaml").write_text(text)
    words = ["sweep", str(folder / "sweep.yaml"), "-o", str(folder / "r.db"), "--jobs", "1"]
    assert CliRunner().invoke(main, words).exit_code == 0
    return rows_of(folder)


def killed_and_resumed(folder, text, kills, seed):
    """Kill the driver ``kills`` times, after a random number of rows and a random delay; then let it finish."""
    chance = random.Random(seed)
    killed = 0
    for _ in range(kills):
        driver = started(folder, text, "--jobs", "2")
        there = len(rows_of(folder))
        wanted = there + chance.randrange(3)
        wait_for(lambda driver=driver, wanted=wanted: driver.poll() is not None or len(rows_of(folder)) >= wanted)
        time.sleep(chance.random() * 0.5)
        killed += driver.poll() is None
        driver.kill()
        driver.communicate()
        wait_for(lambda: not processes(folder))  # workers end with their driver
    assert killed
    driver = started(folder, text, "--jobs", "2")
    assert driver.wait(timeout=300) == 0
    driver.communicate()
    return rows_of(folder)


@pytest.mark.slow
@pytest.mark.parametrize("text", [GRID, pytest.param(SAMPLE, marks=pytest.mark.slow)], ids=["grid", "sample"])
def test_a_driver_that_is_killed_loses_nothing(text, tmp_path):
    (tmp_path / "killed").mkdir()
    assert killed_and_resumed(tmp_path / "killed", text, 2, 1) == undisturbed(tmp_path / "whole", text)


TEN_TIMES = [pytest.param(0, marks=pytest.mark.slow), *(pytest.param(n, marks=pytest.mark.nightly) for n in (1, 2, 3))]


@pytest.mark.nightly
@pytest.mark.parametrize("seed", TEN_TIMES)
@pytest.mark.parametrize("text", [GRID, SAMPLE], ids=["grid", "sample"])
def test_a_driver_that_is_killed_ten_times_loses_nothing(text, seed, tmp_path):
    (tmp_path / "killed").mkdir()
    assert killed_and_resumed(tmp_path / "killed", text, 10, seed) == undisturbed(tmp_path / "whole", text)


SEARCH = MANY + "search: {objectives: [cycles, energy_pj], points: 24, seed: 3}\n"


def searched_and_killed(folder, kills, seed):
    """Kill a search ``kills`` times, then let it finish: its rows, and the rows after each kill."""
    chance = random.Random(seed)
    seen = []
    for _ in range(kills):
        driver = started(folder, SEARCH, "--jobs", "2")
        wanted = len(rows_of(folder)) + chance.randrange(1, 3)
        wait_for(lambda driver=driver, wanted=wanted: driver.poll() is not None or len(rows_of(folder)) >= wanted)
        time.sleep(chance.random() * 0.2)
        driver.kill()
        driver.communicate()
        wait_for(lambda: not processes(folder))
        seen.append(rows_of(folder))
    driver = started(folder, SEARCH, "--jobs", "2")
    assert driver.wait(timeout=300) == 0
    driver.communicate()
    return rows_of(folder), seen


@pytest.mark.parametrize(
    ("kills", "seed"),
    [
        (2, 4),
        pytest.param(10, 4, marks=pytest.mark.slow),
        pytest.param(10, 5, marks=pytest.mark.nightly),
        pytest.param(10, 6, marks=pytest.mark.nightly),
    ],
)
def test_a_search_that_is_killed_resumes_without_repetition(kills, seed, tmp_path):
    rows, seen = searched_and_killed(tmp_path, kills, seed)
    assert len(rows) == 24
    assert len({(row["height"], row["memory.latency"], row["memory.bus_bits"]) for row in rows}) == 24
    for before in seen:
        assert all(row in rows for row in before)  # nothing is lost


@pytest.mark.slow
def test_workers_that_are_killed_lose_nothing(tmp_path):
    (tmp_path / "killed").mkdir()
    folder = tmp_path / "killed"
    driver = started(folder, GRID, "--jobs", "2", "--retries", "5")
    chance = random.Random(2)
    for wanted in (1, 5, 9):
        wait_for(lambda wanted=wanted: driver.poll() is not None or len(rows_of(folder)) >= wanted)
        workers = [each for each in processes(folder) if each != driver.pid]
        if driver.poll() is None and workers:
            os.kill(chance.choice(workers), signal.SIGKILL)
    assert driver.wait(timeout=300) == 0
    driver.communicate()
    assert rows_of(folder) == undisturbed(tmp_path / "whole", GRID)
    assert not processes(folder)


TOOLS = """
import subprocess, sys
def build(machine, n=1):
    subprocess.run([sys.executable, "-c", "import time; time.sleep(600)"])
"""


@pytest.mark.slow
@pytest.mark.parametrize("jobs", ["1", "2"])
@pytest.mark.parametrize("sign", [signal.SIGKILL, signal.SIGINT])
def test_tools_that_points_run_end_with_the_sweep(sign, jobs, tmp_path):
    (tmp_path / "tools.py").write_text(TOOLS)
    text = "workloads:\n  - python: {path: tools.py, n: [1, 2]}\n"
    driver = started(tmp_path, text, "--jobs", jobs, start_new_session=True)
    wait_for(lambda: len(processes(tmp_path)) >= 1 + 2 * int(jobs))  # a driver, its processes and their tools
    time.sleep(0.5)
    driver.send_signal(sign)
    driver.communicate(timeout=60)
    wait_for(lambda: not processes(tmp_path), 10)


def check_stopped(said, store):
    """Check that a stopped sweep prints one line that names its store."""
    (line,) = said.decode().splitlines()
    check_mentions(line, "Stopped", store, "same command")


@pytest.mark.slow
def test_ctrl_c_while_processes_start_prints_nothing_else(tmp_path):
    driver = started(tmp_path, MANY, "--jobs", "2", start_new_session=True)
    wait_for(lambda: len(processes(tmp_path)) >= 3)  # they have just started, and import modules
    os.killpg(driver.pid, signal.SIGINT)
    _, said = driver.communicate(timeout=60)
    check_stopped(said, tmp_path / "r.db")
    wait_for(lambda: not processes(tmp_path), 10)


@pytest.mark.slow
def test_ctrl_c_ends_all_processes_and_loses_no_row(tmp_path):
    driver = started(tmp_path, MANY, "--jobs", "2", start_new_session=True)
    wait_for(lambda: driver.poll() is not None or len(rows_of(tmp_path)) >= 2)
    assert driver.poll() is None
    assert len(processes(tmp_path)) >= 3
    os.killpg(driver.pid, signal.SIGINT)  # to the whole group, as from a terminal
    _, said = driver.communicate(timeout=60)
    assert driver.returncode == 130
    check_stopped(said, tmp_path / "r.db")
    wait_for(lambda: not processes(tmp_path), 10)
    stored = rows_of(tmp_path)
    assert 2 <= len(stored) < 144
    assert started(tmp_path, MANY, "--jobs", "2").wait(timeout=300) == 0
    assert {str(row) for row in stored} <= {str(row) for row in rows_of(tmp_path)}
    assert len(rows_of(tmp_path)) == 144


@pytest.mark.slow
def test_ctrl_c_ends_a_dry_run(tmp_path):
    (tmp_path / "tools.py").write_text(TOOLS)
    text = "workloads:\n  - python: {path: tools.py}\n"
    driver = started(tmp_path, text, "--dry-run", start_new_session=True)
    wait_for(lambda: len(processes(tmp_path)) >= 3)  # the driver, its process and the tool of that process
    driver.send_signal(signal.SIGINT)
    _, said = driver.communicate(timeout=60)
    assert driver.returncode == 130
    (line,) = said.decode().splitlines()
    check_mentions(line, "Stopped", "dry run")
    wait_for(lambda: not processes(tmp_path), 10)
