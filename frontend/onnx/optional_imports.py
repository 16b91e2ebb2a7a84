"""Lazy imports of the packages of the extra `onnx`: only code that reads models needs them."""

from importlib import import_module
from typing import Any

from lathe.frontend.onnx.errors import ModelError


def optional_import(name: str) -> Any:
    """Import a module of the extra. Raises ModelError with what to install if it is missing."""
    try:
        return import_module(name)
    except ImportError as error:
        raise missing_package_error(name, str(error)) from None


def missing_package_error(name: str, error: str) -> ModelError:
    """The error for a module that cannot be imported."""
    return ModelError(
        f"Cannot read ONNX models: package {name.partition('.')[0]!r} cannot be imported ({error}). Install it with: "
        "pip install 'lathe-npu[onnx]'."
    )
