"""Processes of a sweep: none is missed when it dies, and none is left."""

import os
import subprocess
import sys
import time
from contextlib import closing
from pathlib import Path

import pytest
import sweep_tasks

import lathe.sweeps.workers as workers_module
from lathe.sweeps.errors import SweepError
from lathe.sweeps.task_queue import Backlog
from lathe.sweeps.workers import Lost, Task, WorkerPool


def results(crew, contents, families=None):
    tasks = (Task(number, content, families and families[number]) for number, content in enumerate(contents))
    with closing(crew.run(Backlog(tasks))) as found:
        return {task.number: result for task, result in found}


def test_every_task_has_its_result():
    found = results(WorkerPool(sweep_tasks.told, 2), range(20))
    assert {number: content for number, (content, _) in found.items()} == {number: number for number in range(20)}
    assert os.getpid() not in {process for _, process in found.values()}


def test_a_task_whose_process_is_killed_is_begun_anew(tmp_path):
    paths = [str(tmp_path / f"{number}") for number in range(4)]
    assert results(WorkerPool(sweep_tasks.ends_once, 2), paths) == dict(enumerate(paths))


def test_a_task_that_ends_every_process_is_lost_and_the_others_are_not():
    found = results(WorkerPool(sweep_tasks.ends_always, 2, retries=1), ["a", "end", "b", "c"])
    assert found.pop(1) == Lost(False, "The point's process ended 2 times, at last with status 3")
    assert found == {0: "a", 2: "b", 3: "c"}


def test_a_task_that_takes_too_long_is_ended_and_the_others_are_not():
    start = time.monotonic()
    found = results(WorkerPool(sweep_tasks.sleeps, 2, timeout=0.5), [0, 600, 0, 0.1])
    assert found == {0: 0, 1: Lost(True, "The point took more than 0.5 seconds"), 2: 0, 3: 0.1}
    assert time.monotonic() - start < 300


def test_a_result_that_cannot_be_sent_is_a_lost_task():
    found = results(WorkerPool(sweep_tasks.cannot_be_sent, 1, retries=0), [0])
    assert found[0] == Lost(False, "The point's process ended 1 times, at last with status 1")


def test_no_process_is_left_when_the_results_are_no_longer_wanted():
    crew = WorkerPool(sweep_tasks.sleeps, 2)
    running = crew.run(Backlog(Task(number, 600 * number) for number in range(3)))
    assert next(running)[1] == 0
    processes = [worker.process for worker in crew.workers]
    assert len(processes) == 2
    running.close()
    assert not any(process.is_alive() for process in processes)


def is_running(number):
    """Whether a process is there; one that has ended and that nobody has asked about is not."""
    try:
        return Path(f"/proc/{number}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


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
    crew = WorkerPool(sweep_tasks.told, 2)
    assert results(crew, []) == {}
    assert crew.workers == []


def test_a_family_stays_with_its_process():
    families = [number % 2 for number in range(12)]
    found = results(WorkerPool(sweep_tasks.told, 2), range(12), families)
    first, second = ({found[number][1] for number in range(which, 12, 2)} for which in (0, 1))
    # The first process that is ready may be done with its family, and help, before the other one is there.
    assert min(len(first), len(second)) == 1


def test_a_backlog_begins_families_one_by_one_and_helps_with_the_largest():
    tasks = [Task(number, None, family) for number, family in enumerate("aabbbb")]
    backlog = Backlog(iter(tasks))
    assert backlog.take(None).family == "a"
    assert backlog.take(None).family == "b"
    assert backlog.take("a").number == 1
    assert [backlog.take("a").number for _ in range(3)] == [3, 4, 5]
    assert backlog.take("a") is None


def test_a_backlog_looks_ahead_no_further_than_it_may():
    seen = []

    def tasks():
        for number in range(100):
            seen.append(number)
            yield Task(number, None)

    backlog = Backlog(tasks(), ahead=3)
    backlog.take(None)
    assert seen == [0, 1, 2]


def test_processes_that_do_not_start_are_an_error(monkeypatch):
    monkeypatch.setattr(workers_module, "_work", None)  # a process that does nothing
    with pytest.raises(SweepError) as caught:
        results(WorkerPool(sweep_tasks.told, 1), [0])
    assert str(caught.value) == (
        "The processes of a sweep must start, and 3 in a row ended at once (status 0). What they said stands above. "
        "Use fewer of them with --jobs where memory is short."
    )


def test_processes_that_are_killed_while_they_begin_are_begun_anew(monkeypatch, tmp_path):
    monkeypatch.setattr(workers_module, "_work", sweep_tasks.begins_at_the_sixth_time)
    assert results(WorkerPool(str(tmp_path / "starts"), 1), [0]) == {0: "done"}


def scripted(folder, text):
    """What a script of the text says, in a process of its own that may import this folder."""
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
from lathe.sweeps.task_queue import Backlog
from lathe.sweeps.workers import WorkerPool, Task
if __name__ == "__main__":
    with closing(WorkerPool(sweep_tasks.began_deaf, 2).run(Backlog(Task(number, number) for number in range(8)))) as
    found:
        print({result for _, result in found})
"""


def test_the_first_process_of_all_hears_no_ctrl_c_while_it_begins(tmp_path):
    run = scripted(tmp_path, DEAF)  # a driver of its own: the first process that it starts is another's, too
    assert run.stdout == "{True}\n", run.stderr


SIGNALS_ITSELF = """
import os, signal
import lathe.sweeps.workers as workers
from multiprocessing import popen_spawn_posix
import sweep_tasks

def interrupted(*arguments):
    signal.getsignal(signal.SIGINT)(signal.SIGINT, None)  # as if a thread that has not blocked it had taken Ctrl-C
    launched(*arguments)
    print("launched")

launched = popen_spawn_posix.Popen._launch
popen_spawn_posix.Popen._launch = interrupted
try:
    list(workers.Crew(sweep_tasks.told, 1).run(workers_source))
except KeyboardInterrupt:
    print("heard")
"""


def test_ctrl_c_in_the_midst_of_a_start_is_heard_after_it(tmp_path):
    source = "Backlog(iter([workers.Task(0, None)]))"
    run = scripted(
        tmp_path, "from lathe.sweeps.task_queue import Backlog\n" + SIGNALS_ITSELF.replace("workers_source", source)
    )
    assert (run.stdout, run.stderr) == ("launched\nheard\n", "")


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


def test_a_script_sweeps_at_its_top_level_and_measures_nothing_itself(tmp_path, monkeypatch):
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


def test_a_process_of_a_pool_may_sweep(tmp_path):
    run = scripted(tmp_path, DAEMON)
    assert (run.stdout, run.stderr) == ("['ok', 'ok']\n", "")
