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

import lathe.sweeps.cluster as cluster_module
from lathe.sweeps.errors import SweepError

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
        words = [sys.executable, "-c", program("worker"), *place, "--nthreads", "1", "--no-nanny"]
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


def driven(folder, address, rows):
    """The driver of a sweep on a cluster, which has written so many rows and is not done."""
    words = [sys.executable, "-c", "from lathe.command_line import main; main()", "sweep", str(folder / "sweep.yaml")]
    words += ["-o", str(folder / "r.db"), "--cluster", address]
    driver = subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=subprocess.PIPE, text=True)
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


def commands_of_the_page():
    """What docs/sweeps.md says to start an encrypted cluster with, and to sweep on it: a line of shell each."""
    page = (Path(cluster_module.__file__).resolve().parents[2] / "docs" / "sweeps.md").read_text(encoding="utf-8")
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


@pytest.mark.parametrize(("option", "value"), [("--jobs", "2"), ("--timeout", "2.5")])
def test_options_of_local_processes_are_refused_beside_a_cluster(option, value, tmp_path):
    (tmp_path / "sweep.yaml").write_text(SWEEP)
    result = run("sweep", tmp_path / "sweep.yaml", "--cluster", "tcp://127.0.0.1:9", option, value)
    assert (result.exit_code, result.stderr) == (
        2,
        f"Error: {option} must be left out with --cluster, not {value}. The scheduler decides where and when points "
        "are measured.\n",
    )


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
