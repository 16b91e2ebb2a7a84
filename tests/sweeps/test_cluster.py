"""Sweeps on a local Dask scheduler and its workers."""

import contextlib
import json
import os
import shutil
import signal
import socket
import subprocess
import sys
import time
from pathlib import Path

import dask
import pytest
from error_checks import check_mentions, raises
from invoked import lathe as run

import lathe as lt
import lathe.sweeps.cluster as cluster_module
import lathe.sweeps.dask_worker as dask_worker
from lathe.sweeps.errors import SweepError
from lathe.sweeps.measurement import Options, measure
from lathe.sweeps.specification import Point

SWEEP = """
machine:
  memory.latency: [0, 16, 32, 64]
workloads:
  - conv2d: {height: [12, 13, 14], width: 14, channels: 32, filters: 32, padding: 1}
"""


def rows_of(store):
    result = run("results", store, "--json")
    rows = json.loads(result.stdout) if result.exit_code == 0 else []  # it may not exist yet
    return [{key: value for key, value in row.items() if key != "run_seconds"} for row in rows]


@pytest.fixture
def cluster(tmp_path):
    """The address of a scheduler, and its process and those of two workers, without nannies that restart them."""
    with running_cluster(tmp_path, "--no-nanny") as running:
        yield running


@contextlib.contextmanager
def running_cluster(tmp_path, *options_of_workers):
    """Start a scheduler and two workers: the scheduler's address, and the three processes."""
    file = tmp_path / "scheduler.json"
    options = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "cwd": tmp_path}
    program = "import sys; from distributed.cli.dask_{0} import main; main()".format
    common = ["--scheduler-file", str(file), "--host", "127.0.0.1", "--no-dashboard"]
    started = [subprocess.Popen([sys.executable, "-c", program("scheduler"), *common, "--port", "0"], **options)]
    try:
        until = time.monotonic() + 120
        while not file.exists() or not file.read_text().strip():
            assert time.monotonic() < until, "the scheduler does not start"
            time.sleep(0.1)
        words = [sys.executable, "-c", program("worker"), *common, "--nthreads", "1", *options_of_workers]
        started += [subprocess.Popen(words, **options) for _ in range(2)]
        address = json.loads(file.read_text())["address"]
        client = cluster_module.connected(cluster_module.distributed(), address)
        client.wait_for_workers(2, timeout=120)
        client.close()
        yield address, started
    finally:
        for process in started:
            process.kill()
            process.wait()


def driven_by(path, folder, address):
    """The driver of a sweep on a cluster."""
    words = [sys.executable, "-c", "from lathe.command_line import main; main()", "sweep", str(path)]
    words += ["-o", str(folder / "r.db"), "--cluster", address]
    return subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)


def driven(folder, address, rows):
    """The driver of a sweep on a cluster, which has written at least ``rows`` rows and is not done."""
    driver = driven_by(folder / "sweep.yaml", folder, address)
    until = time.monotonic() + 240
    while driver.poll() is None and time.monotonic() < until and len(rows_of(folder / "r.db")) < rows:
        time.sleep(0.05)
    assert driver.poll() is None
    return driver


@pytest.mark.slow
def test_killing_a_worker_of_a_cluster_loses_no_row_and_killing_the_scheduler_no_measured_row(cluster, tmp_path):
    address, (scheduler, worker, _) = cluster
    (tmp_path / "sweep.yaml").write_text(SWEEP)
    driver = driven(tmp_path, address, 2)
    os.kill(worker.pid, signal.SIGKILL)
    assert driver.wait(timeout=300) == 0
    driver.communicate()
    assert run("sweep", tmp_path / "sweep.yaml", "-o", tmp_path / "here.db", "--jobs", 1).exit_code == 0
    stored = rows_of(tmp_path / "r.db")
    assert stored == rows_of(tmp_path / "here.db")

    (tmp_path / "sweep.yaml").write_text(SWEEP.replace("[0, 16, 32, 64]", "{from: 0, to: 64}"))
    driver = driven(tmp_path, address, len(stored) + 1)
    os.kill(scheduler.pid, signal.SIGKILL)
    _, said = driver.communicate(timeout=300)
    assert driver.returncode == 2
    # Dask prints messages of its own before it.
    check_mentions(said.splitlines()[-1], "Error", f"cluster {address!r}", "same command")
    assert len(stored) < len(rows_of(tmp_path / "r.db")) < 65 * 3


FAULTS = """
import os, signal, time
import lathe as lt

def build(machine, kind, n=0):
    with open({tried!r}, "a") as file:
        print(kind, n, file=file)
    if kind == 1:
        os.kill(os.getpid(), signal.SIGKILL)
    if kind == 2:
        time.sleep(600)
    if kind == 3:
        os.kill(os.getppid(), signal.SIGKILL)
        time.sleep(600)
    return lt.relu(lt.placeholder((2 + n, 16), "int8", name="A"), name="B")
"""


def faults(folder, text):
    """A sweep of points that kill their process (1), take long (2) or kill the worker that started it (3)."""
    script = folder / "script" / "faults.py"  # it writes outside of its folder, where all files are dependencies
    script.parent.mkdir()
    script.write_text(FAULTS.format(tried=str(folder / "tried")))
    (folder / "sweep.yaml").write_text(f"workloads:\n  - python: {{path: script/faults.py, {text}}}\n")
    return folder / "sweep.yaml"


def tried(folder, kind):
    return sum(line.split()[0] == str(kind) for line in (folder / "tried").read_text().splitlines())


@pytest.mark.slow
def test_timeouts_and_retries_on_a_cluster_are_those_of_local_processes(cluster, tmp_path):
    address, _ = cluster
    path = faults(tmp_path, "kind: [0, 1, 2], n: [0, 1]")
    words = ["sweep", path, "--retries", 1, "--timeout", 3]
    assert run(*words, "-o", tmp_path / "r.db", "--cluster", address).exit_code == 0
    assert (tried(tmp_path, 1), tried(tmp_path, 2)) == (2 * 2, 2)
    rows = rows_of(tmp_path / "r.db")
    (tmp_path / "tried").unlink()
    assert run(*words, "-o", tmp_path / "here.db", "--jobs", 1).exit_code == 0
    assert (tried(tmp_path, 1), tried(tmp_path, 2)) == (2 * 2, 2)
    here = rows_of(tmp_path / "here.db")
    for row in here:
        row["reason"] = row["reason"] and row["reason"].replace(
            "Use fewer processes with --jobs.", "Start fewer Dask workers on each machine."
        )
    assert rows == here
    assert [row["status"] for row in rows] == ["ok"] * 2 + ["worker lost"] * 2 + ["timed out"] * 2


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="processes are found in /proc")
def test_ctrl_c_ends_the_processes_of_a_clusters_workers(cluster, tmp_path):
    address, workers = cluster
    driver = driven_by(faults(tmp_path, "kind: 2, n: [0, 1, 2, 3]"), tmp_path, address)
    until = time.monotonic() + 240
    while not (tmp_path / "tried").exists() or tried(tmp_path, 2) < 2:
        assert driver.poll() is None
        assert time.monotonic() < until
        time.sleep(0.05)
    driver.send_signal(signal.SIGINT)
    driver.communicate(timeout=60)
    assert driver.returncode == 130
    while any(children_of(worker.pid) for worker in workers[1:]):
        assert time.monotonic() < until
        time.sleep(0.05)
    assert tried(tmp_path, 2) == 2


def children_of(number):
    """The measuring subprocesses of a process, without multiprocessing's own helper."""
    children = []
    for path in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            state, parent, *_ = (path / "stat").read_text().rpartition(")")[2].split()
            if int(parent) == number and state != "Z" and b"spawn_main" in (path / "cmdline").read_bytes():
                children.append(path.name)
    return children


@pytest.mark.slow
def test_only_the_point_that_kills_workers_of_a_cluster_is_lost(tmp_path):
    path = faults(tmp_path, "kind: 3")
    path.write_text(path.read_text() + "  - python: {path: script/faults.py, kind: 0, n: [0, 1, 2, 3, 4, 5]}\n")
    with running_cluster(tmp_path, "--nanny") as (address, _):
        result = run("sweep", path, "-o", tmp_path / "r.db", "--cluster", address)
    assert result.exit_code == 0, result.stderr
    rows = rows_of(tmp_path / "r.db")
    assert [row["status"] for row in rows] == ["worker lost"] + ["ok"] * 6
    check_mentions(rows[0]["reason"], "cluster", "4 times", "Dask workers")


@pytest.mark.slow
def test_a_worker_reuses_the_process_of_a_sweep_until_it_is_dismissed(monkeypatch):
    monkeypatch.setattr(dask_worker, "IDLE", 0.05)
    content = Point("vta", {}, "relu", {"height": 1, "width": 1, "channels": 16}), Options()
    assert dask_worker.measure_on_worker("a sweep", content, None, 0) == measure(content[0])
    ((key, state),) = dask_worker._STATES.items()
    until = time.monotonic() + 60
    while state.pool.workers:  # it has been idle for long
        assert time.monotonic() < until
        time.sleep(0.01)
    monkeypatch.setattr(dask_worker, "IDLE", 600)
    for _ in range(2):
        assert dask_worker.measure_on_worker("a sweep", content, None, 0).status == "ok"
        (worker,) = state.pool.workers
        assert key in dask_worker._STATES
    worker.process.kill()  # while idle, which does not count for the next point
    worker.process.join()
    assert dask_worker.measure_on_worker("a sweep", content, None, 0).status == "ok"
    (worker,) = state.pool.workers
    dask_worker.dismiss("a sweep")
    assert not worker.process.is_alive()
    assert dask_worker._STATES == {}
    raises(SweepError, dask_worker.measure_on_worker, "a sweep", content, None, 0, mentions=("sweep has ended",))


def documented_commands():
    """The shell lines of docs/design-space-exploration.md that start an encrypted cluster and sweep on it."""
    page = (Path(cluster_module.__file__).resolve().parents[2] / "docs" / "design-space-exploration.md").read_text(
        encoding="utf-8"
    )
    block = page.partition("## Clusters")[2].partition("```sh\n")[2].partition("```")[0]
    return [line for line in block.splitlines() if line]


def free_port():
    with socket.socket() as unused:
        unused.bind(("127.0.0.1", 0))
        return unused.getsockname()[1]


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("openssl") is None, reason="openssl creates the certificates")
def test_an_encrypted_cluster_is_started_as_documented(tmp_path):
    (tmp_path / "SWEEP.yaml").write_text(SWEEP)
    port = str(free_port())
    put = {"HOST:8786": f"127.0.0.1:{port}", "--nworkers 8": "--nworkers 2 --no-dashboard"}
    put |= {"rsa:4096": "rsa:2048", "dask scheduler": f"dask scheduler --host 127.0.0.1 --port {port} --no-dashboard"}
    put |= {
        "dask ": f"{sys.executable} -m dask ",
        "lathe ": f"{sys.executable} -c 'from lathe.command_line import main; main()' ",
    }
    lines = documented_commands()
    for written, meant in put.items():
        assert any(written in line for line in lines)
        lines = [line.replace(written, meant) for line in lines]
    starting = [line for line in lines if "dask scheduler" in line or "dask worker" in line]
    (sweeping,) = [line for line in lines if "SWEEP.yaml" in line]
    exports = [line for line in lines if line.startswith("export ")]
    options = {"shell": True, "cwd": tmp_path, "stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
    for line in lines:
        if line not in (*starting, *exports, sweeping):
            subprocess.run(line, **options, check=True)
    started = [subprocess.Popen(f"exec {line}", **options, start_new_session=True) for line in starting]
    try:
        address = f"cluster 'tls://127.0.0.1:{port}'"
        until = time.monotonic() + 240
        while True:  # the workers come some time after the scheduler
            words = "; ".join([*exports, sweeping])
            done = subprocess.run(words, **{**options, "stderr": subprocess.PIPE}, text=True, check=False)
            if done.returncode == 0:
                break
            check_mentions(done.stderr, "Error", address)
            assert not (tmp_path / "RESULTS.db").exists()
            assert time.monotonic() < until, done.stderr
            time.sleep(1)
        assert run("sweep", tmp_path / "SWEEP.yaml", "-o", tmp_path / "here.db", "--jobs", 1).exit_code == 0
        assert rows_of(tmp_path / "RESULTS.db") == rows_of(tmp_path / "here.db")
        # Without a certificate of the cluster the connection is refused.
        plain = subprocess.run(sweeping.replace("tls:", "tcp:"), **{**options, "stderr": subprocess.PIPE}, text=True,
                               check=False)  # fmt: skip
        assert plain.returncode == 2
        check_mentions(plain.stderr, "Error", address.replace("tls:", "tcp:"))
    finally:
        for process in started:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def test_a_scheduler_that_does_not_answer_is_reported(tmp_path, monkeypatch):
    monkeypatch.setattr(cluster_module, "SECONDS", 0.5)
    (tmp_path / "sweep.yaml").write_text(SWEEP)
    result = run("sweep", tmp_path / "sweep.yaml", "--cluster", "tcp://127.0.0.1:9", "-o", tmp_path / "r.db")
    assert (result.exit_code, result.stdout) == (2, "")
    assert not (tmp_path / "r.db").exists()
    check_mentions(result.stderr, "Error", "Dask scheduler", "cluster 'tcp://127.0.0.1:9'", "tcp://10.0.0.1:8786")


@pytest.mark.parametrize("address", ["here", "127.0.0.1:8786", "tcp://127.0.0.1", "tcp://x:y", "http://x:80", ""])
def test_an_invalid_address_is_refused(address, tmp_path):
    (tmp_path / "sweep.yaml").write_text(SWEEP)
    result = run("sweep", tmp_path / "sweep.yaml", "--cluster", address, "-o", tmp_path / "r.db")
    assert (result.exit_code, result.stdout) == (2, "")
    check_mentions(result.stderr, "Error", "cluster", "tcp://10.0.0.1:8786", f"not {address!r}")
    assert not (tmp_path / "r.db").exists()


CERTIFICATES = "DASK_DISTRIBUTED__COMM__TLS__CA_FILE and DASK_DISTRIBUTED__COMM__TLS__CLIENT__CERT"
WITHOUT = {
    "none": ({}, "without certificates"),
    "missing": (
        {"distributed.comm.tls.ca-file": "none.pem", "distributed.comm.tls.client.cert": "none.pem"},
        "No such file or directory",
    ),
}


@pytest.mark.parametrize("kind", WITHOUT)
def test_an_encrypted_cluster_requires_certificates(kind, tmp_path):
    settings, mention = WITHOUT[kind]
    cluster_module.distributed()  # loads Dask's default settings, which are then replaced
    (tmp_path / "sweep.yaml").write_text(SWEEP)
    none = {"distributed.comm.tls.ca-file": None, "distributed.comm.tls.client.cert": None}
    with dask.config.set({**none, **settings}):
        result = run("sweep", tmp_path / "sweep.yaml", "--cluster", "tls://127.0.0.1:9", "-o", tmp_path / "r.db")
    assert (result.exit_code, result.stdout) == (2, "")
    check_mentions(result.stderr, "Error", "cluster 'tls://127.0.0.1:9'", mention, CERTIFICATES)
    assert not (tmp_path / "r.db").exists()


def test_a_number_of_local_processes_is_refused_with_a_cluster(tmp_path):
    (tmp_path / "sweep.yaml").write_text(SWEEP)
    result = run("sweep", tmp_path / "sweep.yaml", "--cluster", "tcp://127.0.0.1:9", "--jobs", 2)
    assert result.exit_code == 2
    check_mentions(result.stderr, "Error", "--jobs", "--cluster", "not 2")
    options = {"jobs": 2, "cluster": "tcp://127.0.0.1:9"}
    raises(SweepError, lt.sweep, tmp_path / "sweep.yaml", **options, mentions=("jobs", "cluster", "not 2"))


def test_without_the_package_the_error_names_what_to_install(monkeypatch):
    def missing(name):
        raise ImportError(f"No module named {name!r}")

    monkeypatch.setattr(cluster_module, "import_module", missing)
    mentions = ("package 'distributed'", "--cluster", "No module named 'distributed'", "'lathe-npu[cluster]'")
    raises(SweepError, cluster_module.distributed, mentions=mentions)
