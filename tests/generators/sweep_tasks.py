"""What processes of a sweep are given in tests: functions that end their process, take long, or tell where they ran."""

import os
import signal
import time
from pathlib import Path


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
