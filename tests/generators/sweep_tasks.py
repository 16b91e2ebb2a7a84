"""Tasks of sweep processes for tests: functions that kill their process, take long, or return their process."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

BEGAN_DEAF = signal.SIGINT in signal.pthread_sigmask(signal.SIG_BLOCK, [])
"""Whether SIGINT was blocked when this file was imported, which is the first thing that a sweep process does."""


def told(content):
    """The content, and the process that received it."""
    return content, os.getpid()


def ends_once(path):
    """The first process that gets a path kills itself, as the system does if memory runs out; the next one does not."""
    if not Path(path).exists():
        Path(path).write_text("")
        os.kill(os.getpid(), signal.SIGKILL)
    return path


def ends_always(content):
    """Every process that gets 'end' exits."""
    if content == "end":
        os._exit(3)
    return content


def sleeps(seconds):
    """Sleep for some seconds."""
    time.sleep(seconds)
    return seconds


def cannot_be_sent(_content):
    """A result that cannot be pickled."""
    return lambda: None


def runs_a_tool(content):
    """Start a subprocess that sleeps for long and write its id; then wait for it, or exit ('end')."""
    path, then = content
    tool = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    Path(path).write_text(str(tool.pid))
    if then == "end":
        os._exit(3)
    tool.wait()


def began_deaf(_content):
    """Whether SIGINT was blocked while this process started."""
    return BEGAN_DEAF


def begins_at_the_sixth_time(pipe, path):
    """A replacement of a process's main function: the first five processes are killed at once."""
    with Path(path).open("a") as file:
        file.write("x")
    if Path(path).stat().st_size <= 5:
        os.kill(os.getpid(), signal.SIGKILL)
    pipe.send("ready")
    while pipe.recv() is not None:
        pipe.send("done")
