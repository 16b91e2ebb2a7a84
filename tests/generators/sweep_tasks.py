"""What processes of a sweep are given in tests: functions that end their process, take long, or tell where they ran."""

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

BEGAN_DEAF = signal.SIGINT in signal.pthread_sigmask(signal.SIG_BLOCK, [])
"""Whether this process heard no Ctrl-C when it came to read this file, which a process of a sweep does first."""


def told(content):
    """The content and the process that had it."""
    return content, os.getpid()


def ends_once(path):
    """The first process that gets a path kills itself, as the system does for want of memory; the next one does not."""
    if not Path(path).exists():
        Path(path).write_text("")
        os.kill(os.getpid(), signal.SIGKILL)
    return path


def ends_always(content):
    """Every process that gets 'end' ends."""
    if content == "end":
        os._exit(3)
    return content


def sleeps(seconds):
    """Takes so long."""
    time.sleep(seconds)
    return seconds


def cannot_be_sent(_content):
    """A result that no pipe takes."""
    return lambda: None


def runs_a_tool(content):
    """Start a process that sleeps for long and tell its number; then wait for it, or end ('end')."""
    path, then = content
    tool = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    Path(path).write_text(str(tool.pid))
    if then == "end":
        os._exit(3)
    tool.wait()


def began_deaf(_content):
    """Whether Ctrl-C could not have ended this process while it began."""
    return BEGAN_DEAF


def begins_at_the_sixth_time(pipe, path):
    """In place of what processes do: the first five are killed at once."""
    with Path(path).open("a") as file:
        file.write("x")
    if Path(path).stat().st_size <= 5:
        os.kill(os.getpid(), signal.SIGKILL)
    pipe.send("ready")
    while pipe.recv() is not None:
        pipe.send("done")
