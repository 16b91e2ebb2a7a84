"""The process pool of a sweep: tasks of processes that die are retried, and no process remains."""

import os
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import pytest
import sweep_tasks
from error_checks import check_mentions, raises

import lathe.sweeps.workers as workers_module
from lathe.sweeps.errors import SweepError
from lathe.sweeps.task_queue import TaskQueue
from lathe.sweeps.workers import Lost, Task, WorkerPool


def results(pool, contents, families=None):
    tasks = (Task(number, content, families and families[number]) for number, content in enumerate(contents))
    with closing(pool.run(TaskQueue(tasks))) as found:
        return {task.number: result for task, result in found}


def test_every_task_has_its_result():
    found = results(WorkerPool(sweep_tasks.told, 2), range(20))
    assert {number: content for number, (content, _) in found.items()} == {number: number for number in range(20)}
    assert os.getpid() not in {process for _, process in found.values()}


@pytest.mark.slow
def test_a_task_whose_process_is_killed_is_retried(tmp_path):
    paths = [str(tmp_path / f"{number}") for number in range(4)]
    assert results(WorkerPool(sweep_tasks.ends_once, 2), paths) == dict(enumerate(paths))


def check_lost(result, late, *mentions):
    """Check that a task was lost, and its reason."""
    assert isinstance(result, Lost)
    assert result.late is late
    check_mentions(result.reason, *mentions)


@pytest.mark.slow
def test_only_the_task_that_kills_every_process_is_lost():
    found = results(WorkerPool(sweep_tasks.ends_always, 2, retries=1), ["a", "end", "b", "c"])
    check_lost(found.pop(1), False, "2 times", "status 3")
    assert found == {0: "a", 2: "b", 3: "c"}


def test_only_the_task_that_takes_too_long_is_killed():
    start = time.monotonic()
    found = results(WorkerPool(sweep_tasks.sleeps, 2, timeout=0.5), [0, 600, 0, 0.1])
    check_lost(found.pop(1), True, "0.5 seconds")
    assert found == {0: 0, 2: 0, 3: 0.1}
    assert time.monotonic() - start < 300


@pytest.mark.slow
def test_a_task_whose_result_cannot_be_sent_is_lost():
    found = results(WorkerPool(sweep_tasks.cannot_be_sent, 1, retries=0), [0])
    check_lost(found[0], False, "1 times", "status 1")


@pytest.mark.slow
def test_no_process_remains_when_the_results_are_closed():
    pool = WorkerPool(sweep_tasks.sleeps, 2)
    running = pool.run(TaskQueue(Task(number, 600 * number) for number in range(3)))
    assert next(running)[1] == 0
    processes = [worker.process for worker in pool.workers]
    assert len(processes) == 2
    running.close()
    assert not any(process.is_alive() for process in processes)


def is_running(number):
    """Whether a process runs; a zombie does not."""
    try:
        return Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="processes are found in /proc")
@pytest.mark.parametrize(
    ("then", "options"), [("wait", {"timeout": 5}), ("end", {"retries": 0})], ids=["too long", "ended"]
)
def test_tools_end_with_the_process_that_runs_them(then, options, tmp_path):
    found = results(WorkerPool(sweep_tasks.runs_a_tool, 1, **options), [(str(tmp_path / "tool"), then)])
    assert isinstance(found[0], Lost)
    tool = int((tmp_path / "tool").read_text())
    until = time.monotonic() + 60
    while is_running(tool):
        assert time.monotonic() < until
        time.sleep(0.02)


def test_nothing_to_do_starts_no_process():
    pool = WorkerPool(sweep_tasks.told, 2)
    assert results(pool, []) == {}
    assert pool.workers == []


@pytest.mark.slow
def test_a_family_stays_with_its_process():
    families = [number % 2 for number in range(12)]
    found = results(WorkerPool(sweep_tasks.told, 2), range(12), families)
    first, second = ({found[number][1] for number in range(which, 12, 2)} for which in (0, 1))
    # The first process may finish its family, and take tasks of the other, before the second one has started.
    assert min(len(first), len(second)) == 1


def test_a_queue_starts_families_in_order_and_then_takes_from_the_largest():
    tasks = [Task(number, None, family) for number, family in enumerate("aabbbb")]
    queue = TaskQueue(iter(tasks))
    assert queue.take(None).family == "a"
    assert queue.take(None).family == "b"
    assert queue.take("a").number == 1
    assert [queue.take("a").number for _ in range(3)] == [3, 4, 5]
    assert queue.take("a") is None


def test_a_queue_fetches_no_more_tasks_in_advance_than_allowed():
    seen = []

    def tasks():
        for number in range(100):
            seen.append(number)
            yield Task(number, None)

    queue = TaskQueue(tasks(), ahead=3)
    queue.take(None)
    assert seen == [0, 1, 2]


def test_processes_that_do_not_start_are_an_error(monkeypatch):
    monkeypatch.setattr(workers_module, "_work", None)  # a process that does nothing
    raises(SweepError, results, WorkerPool(sweep_tasks.told, 1), [0], mentions=("start", 3, "status 0", "--jobs"))


def test_processes_that_are_killed_during_their_start_are_replaced(monkeypatch, tmp_path):
    monkeypatch.setattr(workers_module, "_work", sweep_tasks.begins_at_the_sixth_time)
    assert results(WorkerPool(str(tmp_path / "starts"), 1), [0]) == {0: "done"}


def scripted(folder, text):
    """Run a text as a script, in a process that can import ``sweep_tasks``."""
    (folder / "sweeps.py").write_text(text)
    folders = os.pathsep.join([str(Path(sweep_tasks.__file__).parent), os.environ.get("PYTHONPATH", "")])
    return subprocess.run(
        [sys.executable, str(folder / "sweeps.py")],
        env={**os.environ, "PYTHONPATH": folders},
        capture_output=True,
        text=True,
        timeout=300,
    )


DEAF = """
from contextlib import closing
import sweep_tasks
from lathe.sweeps.task_queue import TaskQueue
from lathe.sweeps.workers import WorkerPool, Task
if __name__ == "__main__":
    queue = TaskQueue(Task(number, number) for number in range(8))
    with closing(WorkerPool(sweep_tasks.began_deaf, 2).run(queue)) as found:
        print({result for _, result in found})
"""


@pytest.mark.slow
def test_the_very_first_process_ignores_ctrl_c_while_it_starts(tmp_path):
    run = scripted(tmp_path, DEAF)  # a new driver, since the first start also starts multiprocessing's own process
    assert run.stdout == "{True}\n", run.stderr


SIGNALS_ITSELF = """
import os, signal
import lathe.sweeps.workers as workers
from multiprocessing import popen_spawn_posix
import sweep_tasks

def interrupted(*arguments):
    signal.getsignal(signal.SIGINT)(signal.SIGINT, None)  # as if another thread, with Ctrl-C unblocked, received it
    launched(*arguments)
    print("launched")

launched = popen_spawn_posix.Popen._launch
popen_spawn_posix.Popen._launch = interrupted
try:
    list(workers.WorkerPool(sweep_tasks.told, 1).run(workers_source))
except KeyboardInterrupt:
    print("interrupted")
"""


@pytest.mark.slow
def test_ctrl_c_during_a_start_is_handled_after_it(tmp_path):
    source = "TaskQueue(iter([workers.Task(0, None)]))"
    run = scripted(
        tmp_path, "from lathe.sweeps.task_queue import TaskQueue\n" + SIGNALS_ITSELF.replace("workers_source", source)
    )
    assert (run.stdout, run.stderr) == ("launched\ninterrupted\n", "")


ONE_JOB = """
import os
import lathe as lt
print("script")
source = {"workloads": [{"python": {"path": "where.py"}}]}
for jobs in (1, 2):
    print([row["status"] for row in lt.sweep(source, jobs=jobs)])
print(str(os.getpid()) in open("processes").read().split())
"""
WHERE = """
import os
import lathe as lt

def build(machine):
    with open("processes", "a") as file:
        print(os.getpid(), file=file)
    return lt.relu(lt.placeholder((2, 16), "int8", name="A"), name="B")
"""


@pytest.mark.slow
def test_a_script_may_sweep_at_its_top_level_and_measures_in_other_processes(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    (tmp_path / "where.py").write_text(WHERE)
    run = scripted(tmp_path, ONE_JOB)
    assert (run.stdout, run.stderr) == ("script\n['ok']\n['ok']\nFalse\n", "")


DAEMON = """
import multiprocessing
import lathe as lt

def swept(rows):
    return lt.sweep({"workloads": [{"matmul": {"m": rows, "n": 16, "k": 16}}]}, jobs=1)[0]["status"]

if __name__ == "__main__":
    with multiprocessing.get_context("spawn").Pool(1) as pool:
        print(pool.map(swept, [4, 8]))
"""


@pytest.mark.slow
def test_a_process_of_a_pool_may_sweep(tmp_path):
    run = scripted(tmp_path, DAEMON)
    assert (run.stdout, run.stderr) == ("['ok', 'ok']\n", "")
