"""Sweeps on a Dask scheduler with workers of its own, on this machine."""

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
    rows = json.loads(result.stdout) if result.exit_code == 0 else []  # it may just be made
    return [{key: value for key, value in row.items() if key != "run_seconds"} for row in rows]


@pytest.fixture
def cluster(tmp_path):
    """The address of a scheduler, it and its two workers, which have no nanny that would begin them anew."""
    with running_cluster(tmp_path, "--no-nanny") as found:
        yield found


@contextlib.contextmanager
def running_cluster(tmp_path, *options_of_workers):
    """A scheduler and two workers: its address and all three."""
    told = tmp_path / "scheduler.json"
    options = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL, "cwd": tmp_path}
    program = "import sys; from distributed.cli.dask_{0} import main; main()".format
    place = ["--scheduler-file", str(told), "--host", "127.0.0.1", "--no-dashboard"]
    started = [subprocess.Popen([sys.executable, "-c", program("scheduler"), *place, "--port", "0"], **options)]
    try:
        until = time.monotonic() + 120
        while not told.exists() or not told.read_text().strip():
            assert time.monotonic() < until, "the scheduler does not start"
            time.sleep(0.1)
        words = [sys.executable, "-c", program("worker"), *place, "--nthreads", "1", *options_of_workers]
        started += [subprocess.Popen(words, **options) for _ in range(2)]
        address = json.loads(told.read_text())["address"]
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
    """The driver of a sweep on a cluster, which has written so many rows and is not done."""
    driver = driven_by(folder / "sweep.yaml", folder, address)
    until = time.monotonic() + 240
    while driver.poll() is None and time.monotonic() < until and len(rows_of(folder / "r.db")) < rows:
        time.sleep(0.05)
    assert driver.poll() is None
    return driver


@pytest.mark.slow
def test_a_worker_of_a_cluster_that_is_killed_loses_nothing_and_a_scheduler_what_is_not_done(cluster, tmp_path):
    address, (scheduler, worker, _) = cluster
    (tmp_path / "sweep.yaml").write_text(SWEEP)
    driver = driven(tmp_path, address, 2)
    os.kill(worker.pid, signal.SIGKILL)
    assert driver.wait(timeout=300) == 0
    driver.communicate()
    assert run("sweep", tmp_path / "sweep.yaml", "-o", tmp_path / "here.db", "--jobs", 1).exit_code == 0
    kept = rows_of(tmp_path / "r.db")
    assert kept == rows_of(tmp_path / "here.db")

    (tmp_path / "sweep.yaml").write_text(SWEEP.replace("[0, 16, 32, 64]", "{from: 0, to: 64}"))
    driver = driven(tmp_path, address, len(kept) + 1)
    os.kill(scheduler.pid, signal.SIGKILL)
    _, said = driver.communicate(timeout=300)
    assert driver.returncode == 2
    # Dask says what it thinks of it, too.
    assert f"Error: The cluster {address!r} must stay until all is measured, and does not: " in said
    assert said.endswith("What was measured before is kept; with a store the same command goes on.\n")
    assert len(kept) < len(rows_of(tmp_path / "r.db")) < 65 * 3


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
    """A sweep of points that may end their process (1), take long (2) or end the worker that started it (3)."""
    script = (
        folder / "script" / "mutation_testing.py"
    )  # what it writes lies outside of its folder, where all files count
    script.parent.mkdir()
    script.write_text(FAULTS.format(tried=str(folder / "tried")))
    (folder / "sweep.yaml").write_text(f"workloads:\n  - python: {{path: script/faults.py, {text}}}\n")
    return folder / "sweep.yaml"


def tried(folder, kind):
    return sum(line.split()[0] == str(kind) for line in (folder / "tried").read_text().splitlines())


@pytest.mark.slow
def test_time_outs_and_retries_mean_on_a_cluster_what_they_mean_here(cluster, tmp_path):
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
def test_ctrl_c_ends_what_workers_of_a_cluster_measure(cluster, tmp_path):
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
    """The processes that a process has started and that measure; multiprocessing's own helper is none."""
    found = []
    for path in Path("/proc").glob("[0-9]*"):
        with contextlib.suppress(OSError):
            state, parent, *_ = (path / "stat").read_text().rpartition(")")[2].split()
            if int(parent) == number and state != "Z" and b"spawn_main" in (path / "cmdline").read_bytes():
                found.append(path.name)
    return found


@pytest.mark.slow
def test_only_the_point_that_ends_workers_of_a_cluster_is_lost(tmp_path):
    path = faults(tmp_path, "kind: 3")
    path.write_text(path.read_text() + "  - python: {path: script/faults.py, kind: 0, n: [0, 1, 2, 3, 4, 5]}\n")
    with running_cluster(tmp_path, "--nanny") as (address, _):
        result = run("sweep", path, "-o", tmp_path / "r.db", "--cluster", address)
    assert result.exit_code == 0, result.stderr
    rows = rows_of(tmp_path / "r.db")
    assert [row["status"] for row in rows] == ["worker lost"] + ["ok"] * 6
    assert rows[0]["reason"] == (
        "The point's worker of the cluster died 4 times, with no other point beside it. Start fewer Dask workers "
        "on each machine."
    )


def test_a_worker_keeps_the_process_of_a_sweep_until_it_is_dismissed(monkeypatch):
    monkeypatch.setattr(dask_worker, "IDLE", 0.05)
    content = Point("vta", {}, "relu", {"height": 1, "width": 1, "channels": 16}), Options()
    assert dask_worker.measure_there("a sweep", content, None, 0) == measure(content[0])
    ((key, kept),) = dask_worker._KEPT.items()
    until = time.monotonic() + 60
    while kept.crew.workers:  # nothing was to be done for long
        assert time.monotonic() < until
        time.sleep(0.01)
    monkeypatch.setattr(dask_worker, "IDLE", 600)
    for _ in range(2):
        assert dask_worker.measure_there("a sweep", content, None, 0).status == "ok"
        (worker,) = kept.crew.workers
        assert key in dask_worker._KEPT
    worker.process.kill()  # at rest, which is no fault of the next point
    worker.process.join()
    assert dask_worker.measure_there("a sweep", content, None, 0).status == "ok"
    (worker,) = kept.crew.workers
    dask_worker.dismiss("a sweep")
    assert not worker.process.is_alive()
    assert dask_worker._KEPT == {}
    with pytest.raises(SweepError) as caught:
        dask_worker.measure_there("a sweep", content, None, 0)
    assert str(caught.value) == "A point of a sweep must be measured before it has ended, not after."


def commands_of_the_page():
    """What docs/design-space-exploration.md says to start an encrypted cluster with, and to sweep on it: a line of
    shell each.
    """
    page = (Path(cluster_module.__file__).resolve().parents[2] / "docs" / "design-space-exploration.md").read_text(
        encoding="utf-8"
    )
    block = page.partition("## A cluster")[2].partition("```sh\n")[2].partition("```")[0]
    return [line for line in block.splitlines() if line]


def free_port():
    with socket.socket() as found:
        found.bind(("127.0.0.1", 0))
        return found.getsockname()[1]


@pytest.mark.slow
@pytest.mark.skipif(shutil.which("openssl") is None, reason="certificates are made with openssl")
def test_an_encrypted_cluster_is_started_as_the_page_says(tmp_path):
    (tmp_path / "SWEEP.yaml").write_text(SWEEP)
    port = str(free_port())
    put = {"HOST:8786": f"127.0.0.1:{port}", "--nworkers 8": "--nworkers 2 --no-dashboard"}
    put |= {"rsa:4096": "rsa:2048", "dask scheduler": f"dask scheduler --host 127.0.0.1 --port {port} --no-dashboard"}
    put |= {
        "dask ": f"{sys.executable} -m dask ",
        "lathe ": f"{sys.executable} -c 'from lathe.command_line import main; main()' ",
    }
    lines = commands_of_the_page()
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
        said = f"Error: The cluster 'tls://127.0.0.1:{port}' must "
        until = time.monotonic() + 240
        while True:  # the workers come some time after the scheduler
            words = "; ".join([*exports, sweeping])
            done = subprocess.run(words, **{**options, "stderr": subprocess.PIPE}, text=True, check=False)
            if done.returncode == 0:
                break
            assert done.stderr.startswith(said), done.stderr
            assert not (tmp_path / "RESULTS.db").exists()
            assert time.monotonic() < until, done.stderr
            time.sleep(1)
        assert run("sweep", tmp_path / "SWEEP.yaml", "-o", tmp_path / "here.db", "--jobs", 1).exit_code == 0
        assert rows_of(tmp_path / "RESULTS.db") == rows_of(tmp_path / "here.db")
        # Who has no certificate of theirs is not let in.
        plain = subprocess.run(sweeping.replace("tls:", "tcp:"), **{**options, "stderr": subprocess.PIPE}, text=True,
                               check=False)  # fmt: skip
        assert plain.returncode == 2
        assert plain.stderr.startswith(said.replace("tls:", "tcp:")), plain.stderr
    finally:
        for process in started:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            process.wait()


def test_a_scheduler_that_does_not_answer_is_told(tmp_path, monkeypatch):
    monkeypatch.setattr(cluster_module, "SECONDS", 0.5)
    (tmp_path / "sweep.yaml").write_text(SWEEP)
    result = run("sweep", tmp_path / "sweep.yaml", "--cluster", "tcp://127.0.0.1:9", "-o", tmp_path / "r.db")
    assert (result.exit_code, result.stdout) == (2, "")
    assert not (tmp_path / "r.db").exists()
    assert result.stderr.startswith(
        "Error: The cluster 'tcp://127.0.0.1:9' must be a Dask scheduler that answers, such as tcp://10.0.0.1:8786, "
        "and does not: "
    )


@pytest.mark.parametrize("address", ["here", "127.0.0.1:8786", "tcp://127.0.0.1", "tcp://x:y", "http://x:80", ""])
def test_what_is_no_address_is_refused(address, tmp_path):
    (tmp_path / "sweep.yaml").write_text(SWEEP)
    result = run("sweep", tmp_path / "sweep.yaml", "--cluster", address, "-o", tmp_path / "r.db")
    assert (result.exit_code, result.stdout, result.stderr) == (
        2,
        "",
        f"Error: The cluster must be an address such as tcp://10.0.0.1:8786, not {address!r}.\n",
    )
    assert not (tmp_path / "r.db").exists()


CERTIFICATES = "DASK_DISTRIBUTED__COMM__TLS__CA_FILE and DASK_DISTRIBUTED__COMM__TLS__CLIENT__CERT"
WITHOUT = {
    "none": (
        {},
        "Error: The cluster 'tls://127.0.0.1:9' must be reached with certificates, and none are named. Set "
        f"{CERTIFICATES} to those that it was started with.\n",
    ),
    "missing": (
        {"distributed.comm.tls.ca-file": "none.pem", "distributed.comm.tls.client.cert": "none.pem"},
        "Error: The certificates for the cluster 'tls://127.0.0.1:9' must be files that can be read, and are not: "
        f"[Errno 2] No such file or directory. {CERTIFICATES} name them.\n",
    ),
}


@pytest.mark.parametrize("kind", WITHOUT)
def test_an_encrypted_cluster_wants_certificates(kind, tmp_path):
    settings, message = WITHOUT[kind]
    cluster_module.distributed()  # which brings Dask's own settings, that others are put in the place of
    (tmp_path / "sweep.yaml").write_text(SWEEP)
    none = {"distributed.comm.tls.ca-file": None, "distributed.comm.tls.client.cert": None}
    with dask.config.set({**none, **settings}):
        result = run("sweep", tmp_path / "sweep.yaml", "--cluster", "tls://127.0.0.1:9", "-o", tmp_path / "r.db")
    assert (result.exit_code, result.stdout, result.stderr) == (2, "", message)
    assert not (tmp_path / "r.db").exists()


def test_a_number_of_local_processes_is_refused_beside_a_cluster(tmp_path):
    (tmp_path / "sweep.yaml").write_text(SWEEP)
    result = run("sweep", tmp_path / "sweep.yaml", "--cluster", "tcp://127.0.0.1:9", "--jobs", 2)
    message = (
        "{0}jobs must be left out with {0}cluster, not 2. The cluster has as many processes as its workers have "
        "threads."
    )
    assert (result.exit_code, result.stderr) == (2, f"Error: {message.format('--')}\n")
    with pytest.raises(SweepError) as caught:
        lt.sweep(tmp_path / "sweep.yaml", jobs=2, cluster="tcp://127.0.0.1:9")
    assert str(caught.value) == message.format("")


def test_a_cluster_without_the_package_says_what_to_install(monkeypatch):
    def missing(name):
        raise ImportError(f"No module named {name!r}")

    monkeypatch.setattr(cluster_module, "import_module", missing)
    with pytest.raises(SweepError) as caught:
        cluster_module.distributed()
    assert str(caught.value) == (
        "package 'distributed' must be there for --cluster, and cannot be imported: No module named 'distributed'. "
        "Install it with: pip install 'lathe-npu[cluster]'."
    )
