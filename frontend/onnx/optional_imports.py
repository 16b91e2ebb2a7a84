"""The packages of the extra `onnx`, imported when a model is first read: nothing else of Lathe needs them."""

from importlib import import_module
from typing import Any

from lathe.frontend.onnx.errors import ModelError


def extra(name: str) -> Any:
    """A module of the extra. Raises ModelError that says what to install."""
    try:
        return import_module(name)
    except ImportError as error:
        raise not_there(name, str(error)) from None


def not_there(name: str, error: str) -> ModelError:
    """What is wrong where a module cannot be imported."""
    return ModelError(
        f"package {name.partition('.')[0]!r} must be there to read ONNX models, and cannot be imported: {error}. "
        "Install it with: pip install 'lathe-npu[onnx]'."
    )
