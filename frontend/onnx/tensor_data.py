"""Checks and loading of tensor data: sizes must match shapes, and external files must be in the model's folder."""

import os
from collections.abc import Iterator
from math import prod
from pathlib import Path
from typing import Any

from lathe.frontend.onnx.errors import ModelError
from lathe.frontend.onnx.optional_imports import optional_import
from lathe.frontend.onnx.value_types import DTYPES_OF_TYPES, bytes_of

MOST_BYTES = (1 << 31) - (1 << 20)
"""Protocol Buffers cannot serialise a model that is larger than 2 GiB."""


def tensors_of(proto: Any) -> Iterator[Any]:
    """All tensors with values: initializers and attributes, also in bodies of control flow and in functions."""
    yield from _of_graph(proto.graph)
    for function in proto.functions:
        for node in function.node:
            yield from _of_node(node)


def _of_graph(graph: Any) -> Iterator[Any]:
    yield from graph.initializer
    for each in graph.sparse_initializer:
        yield from (each.values, each.indices)
    for node in graph.node:
        yield from _of_node(node)


def _of_node(node: Any) -> Iterator[Any]:
    for each in node.attribute:
        if each.HasField("t"):
            yield each.t
        yield from each.tensors
        for sparse in (*([each.sparse_tensor] if each.HasField("sparse_tensor") else []), *each.sparse_tensors):
            yield from (sparse.values, sparse.indices)
        for body in (*([each.g] if each.HasField("g") else []), *each.graphs):
            yield from _of_graph(body)


def load_external_data(proto: Any, name: str, folder: Path | None) -> None:
    """Load external data from files in ``folder``, and check the size of all data against the shapes.

    Raises ModelError for files that are missing, outside of the folder (also through a link), or too short, before
    anything is read, and for tensors whose data does not have the size of their shape.
    """
    outside = [each for each in tensors_of(proto) if each.data_location == each.EXTERNAL]
    total = proto.ByteSize() + sum(_size_outside(each, name, folder) for each in outside)
    if total > MOST_BYTES:
        raise ModelError(f"model {name!r} must be smaller than 2 GiB with its external data, not {total} bytes.")
    for each in outside:
        assert folder is not None, "external data must have a folder"
        optional_import("onnx.external_data_helper").load_external_data_for_tensor(each, str(folder))
    for each in tensors_of(proto):
        _check_size(each, name)


def _size_outside(tensor: Any, name: str, folder: Path | None) -> int:
    """The number of bytes of a tensor in an external file, after checks of the file."""
    what = f"data of tensor {tensor.name!r} of model {name!r}"
    info = {each.key: each.value for each in tensor.external_data}
    location = info.get("location", "")
    if folder is None:
        raise ModelError(f"{what} must be in the ModelProto, not in file {location!r}. Pass the path of the model.")
    if "\0" in location:
        raise ModelError(f"{what} must be in a file without a zero byte in its name, not in {location!r}.")
    path = folder / location
    real, home = Path(os.path.realpath(path)), Path(os.path.realpath(folder))
    if not location or os.path.isabs(location) or real != home / os.path.normpath(location):
        raise ModelError(f"{what} must be in a regular file (no link) inside the model's folder, not in {location!r}.")
    if not path.is_file():
        raise ModelError(f"{what} must be in a file that exists, not in {location!r}.")
    if path.stat().st_nlink > 1:  # package onnx refuses it: the other name may be outside
        raise ModelError(
            f"{what} must be in a file with a single hard link, not in {location!r}, which has several, perhaps "
            "outside the model's folder. Copy the file."
        )
    expected = bytes_of(tensor.data_type, tuple(tensor.dims))
    try:
        offset, length = int(info.get("offset", 0)), int(info.get("length", expected or 0))
    except ValueError:
        offset = length = -1
    size = path.stat().st_size
    if expected != length or offset < 0 or offset + length > size:
        raise ModelError(
            f"{what} must be {expected} bytes within file {location!r}, which has {size} bytes, not "
            f"{info.get('length', length)} bytes at offset {info.get('offset', 0)}."
        )
    if "length" not in info:
        tensor.external_data.add(key="length", value=str(length))
    return length


def _check_size(tensor: Any, name: str) -> None:
    shape = tuple(tensor.dims)
    what = f"tensor {tensor.name!r} of model {name!r}"
    if any(size < 0 for size in shape):
        raise ModelError(f"shape of {what} must have sizes of at least 0, not {list(shape)}.")
    if tensor.data_type not in DTYPES_OF_TYPES:
        raise ModelError(f"type of {what} must be one of ONNX's element types, not number {tensor.data_type}.")
    expected = bytes_of(tensor.data_type, shape)
    if tensor.HasField("raw_data"):
        size_in_bytes = len(tensor.raw_data)
        if expected is not None and size_in_bytes != expected:
            raise ModelError(f"{what} must hold {expected} bytes for its shape {list(shape)}, not {size_in_bytes}.")
        return
    if expected is None and tensor.data_type != tensor.STRING:
        return
    fields = ("float_data", "int32_data", "string_data", "int64_data", "double_data", "uint64_data")
    values = sum(len(getattr(tensor, field)) for field in fields)
    if values not in _numbers_for(tensor, prod(shape)):
        raise ModelError(f"{what} must hold {prod(shape)} values for its shape {list(shape)}, not {values}.")


def _numbers_for(tensor: Any, count: int) -> set[int]:
    """The numbers of entries that ``count`` values may be stored as: complex ones take two, narrow ones are packed."""
    if tensor.data_type in (tensor.COMPLEX64, tensor.COMPLEX128):
        return {2 * count}
    size = bytes_of(tensor.data_type, (count,))
    return {count, size} if size is not None and size < count else {count}
