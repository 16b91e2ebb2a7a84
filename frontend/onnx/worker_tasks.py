"""Functions that the host's process calls: what runs a model otherwise than node by node, within the same limits."""

from pathlib import Path
from typing import Any

from lathe.frontend.onnx import host_worker
from lathe.frontend.onnx.host_process import PROCESS, EndedError, too_large, too_late
from lathe.frontend.onnx.optional_imports import not_there
from lathe.frontend.onnx.run_host_nodes import status_of


class TaskError(Exception):
    """What a function said that did not give a result, or what ended the process that it ran in."""


def run_task(path: Path, name: str, what: str, **arguments: Any) -> Any:
    """What a function of a file gives; the file has nothing of Lathe. ``what``: what is done, for messages.

    Raises ModelError where it takes more memory or time than it may, TaskError where it fails otherwise.
    """
    try:
        kind, *found = PROCESS.call(str(path), name, arguments)
    except EndedError as ended:
        if ended.late:
            raise too_late(what) from None
        raise TaskError(f"it ended its process: {status_of(ended.status)}") from None
    if kind == host_worker.MADE:
        return found[0]
    missing, text = found
    if kind == host_worker.MISSING:
        raise not_there(missing, text)
    if kind == host_worker.MEMORY:
        raise too_large(what)
    raise TaskError(text)
