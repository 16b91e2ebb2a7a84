"""The time until all processes of a sweep have ended after Ctrl-C, for a sweep of small convolutions."""

import os
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from lathe.sweeps.errors import SweepError
from lathe.sweeps.store import reading_store

SWEEP = """
machine:
  memory.latency: {from: 0, to: 127}
workloads:
  - conv2d: {height: [14, 15], width: 14, channels: 32, filters: 32, padding: 1}
"""
MARK = "LATHE_BENCHMARK_OF_INTERRUPTION"
MEASURED = 4
"""The number of points that are measured before the sweep is stopped."""
PROCESSES = Path("/proc")


def seconds_after_interruption(runs: int = 3) -> float:
    """The maximum over some runs of the seconds from Ctrl-C until all processes have ended. Requires /proc."""
    return max(_seconds() for _ in range(runs))


def _seconds() -> float:
    with tempfile.TemporaryDirectory() as folder:
        sweep, store = Path(folder) / "sweep.yaml", Path(folder) / "results.db"
        sweep.write_text(SWEEP, encoding="utf-8")
        words = [sys.executable, "-c", "from lathe.command_line import main; main()", "sweep", str(sweep)]
        driver = subprocess.Popen(
            [*words, "-o", str(store), "--jobs", "2"],
            env={**os.environ, MARK: folder, "LATHE_CACHE": str(Path(folder) / "cache")},
            start_new_session=True,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        while driver.poll() is None and _rows(store) < MEASURED:
            time.sleep(0.05)
        assert driver.poll() is None, "the sweep ended before it was stopped"
        begin = time.perf_counter()
        os.killpg(driver.pid, signal.SIGINT)
        while driver.poll() is None or _is_running(folder):
            time.sleep(0.01)
        return time.perf_counter() - begin


def _rows(store: Path) -> int:
    try:
        with reading_store(store) as opened:
            return len(opened.rows())
    except SweepError:  # not created yet
        return 0


def _is_running(folder: str) -> bool:
    """Whether any process of the sweep is running, including orphans."""
    sign = f"{MARK}={folder}".encode()
    for path in PROCESSES.glob("[0-9]*"):
        try:
            if sign in (path / "environ").read_bytes().split(b"\0"):
                return True
        except OSError:
            continue
    return False
