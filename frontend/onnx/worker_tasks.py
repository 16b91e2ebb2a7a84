"""Calls of Python functions in the host worker process, within its limits of memory and time."""

from pathlib import Path
from typing import Any

from lathe.frontend.onnx import host_worker
from lathe.frontend.onnx.host_process import PROCESS, EndedError, memory_limit_error, timeout_error
from lathe.frontend.onnx.optional_imports import missing_package_error
from lathe.frontend.onnx.run_host_nodes import status_of


class TaskError(Exception):
    """A function failed, with the message of its error, or crashed the worker."""


def run_task(path: Path, name: str, what: str, **arguments: Any) -> Any:
    """Call a function of a file, which must not import Lathe. ``what``: name of the task, for messages.

    Raises ModelError if it exceeds the memory or time limit, TaskError if it fails otherwise.
    """
    try:
        kind, *found = PROCESS.call(str(path), name, arguments)
    except EndedError as ended:
        if ended.late:
            raise timeout_error(what) from None
        raise TaskError(f"it crashed its process ({status_of(ended.status)})") from None
    if kind == host_worker.MADE:
        return found[0]
    missing, text = found
    if kind == host_worker.MISSING:
        raise missing_package_error(missing, text)
    if kind == host_worker.MEMORY:
        raise memory_limit_error(what)
    raise TaskError(text)
