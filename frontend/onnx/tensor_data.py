"""Data of a model's tensors: as many as their shapes say, from files of the model's folder and from no others."""

import os
from collections.abc import Iterator
from math import prod
from pathlib import Path
from typing import Any

from lathe.frontend.onnx.errors import ModelError
from lathe.frontend.onnx.optional_imports import extra
from lathe.frontend.onnx.value_types import DTYPES_OF_TYPES, bytes_of

MOST_BYTES = (1 << 31) - (1 << 20)
"""A model cannot be written in one piece (by Protocol Buffers) if it is larger than 2 GiB."""


def tensors_of(proto: Any) -> Iterator[Any]:
    """All tensors that hold values: initializers, attributes, those in bodies of control flow and in functions."""
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


def check_data(proto: Any, name: str, folder: Path | None) -> None:
    """Load what lies in other files of ``folder``, and compare all data with their shapes.

    Raises ModelError for files that are missing, outside of the folder (also through a link), or too short, and for
    tensors that hold more or less than their shapes say. Nothing is read then.
    """
    outside = [each for each in tensors_of(proto) if each.data_location == each.EXTERNAL]
    total = proto.ByteSize() + sum(_size_outside(each, name, folder) for each in outside)
    if total > MOST_BYTES:
        raise ModelError(f"model {name!r} must take less than 2 GiB with its data, not {total} bytes.")
    for each in outside:
        assert folder is not None, "data in other files have a folder"
        extra("onnx.external_data_helper").load_external_data_for_tensor(each, str(folder))
    for each in tensors_of(proto):
        _check_size(each, name)


def _size_outside(tensor: Any, name: str, folder: Path | None) -> int:
    """Bytes of a tensor in another file, which must be there."""
    what = f"data of tensor {tensor.name!r} of model {name!r}"
    told = {each.key: each.value for each in tensor.external_data}
    location = told.get("location", "")
    if folder is None:
        raise ModelError(f"{what} must be in the model, not in file {location!r}. Give the path of the model instead.")
    if "\0" in location:
        raise ModelError(f"{what} must be in a file whose name has no zero byte, not in {location!r}.")
    path = folder / location
    real, home = Path(os.path.realpath(path)), Path(os.path.realpath(folder))
    if not location or os.path.isabs(location) or real != home / os.path.normpath(location):
        raise ModelError(f"{what} must be in a file of the model's folder that is no link, not in {location!r}.")
    if not path.is_file():
        raise ModelError(f"{what} must be in a file that there is, not in {location!r}.")
    if path.stat().st_nlink > 1:  # package onnx does not read it: the other name may lie outside
        raise ModelError(
            f"{what} must be in a file that has no other name, not in {location!r}, which has a second hard link. Copy "
            "the file."
        )
    wanted = bytes_of(tensor.data_type, tuple(tensor.dims))
    try:
        offset, length = int(told.get("offset", 0)), int(told.get("length", wanted or 0))
    except ValueError:
        offset = length = -1
    size = path.stat().st_size
    if wanted != length or offset < 0 or offset + length > size:
        raise ModelError(
            f"{what} must be {wanted} bytes from an offset within file {location!r} of {size} bytes on, not "
            f"{told.get('length', length)} bytes from offset {told.get('offset', 0)} on."
        )
    if "length" not in told:
        tensor.external_data.add(key="length", value=str(length))
    return length


def _check_size(tensor: Any, name: str) -> None:
    shape = tuple(tensor.dims)
    what = f"tensor {tensor.name!r} of model {name!r}"
    if any(size < 0 for size in shape):
        raise ModelError(f"shape of {what} must have sizes of at least 0, not {list(shape)}.")
    if tensor.data_type not in DTYPES_OF_TYPES:
        raise ModelError(f"type of {what} must be one of ONNX's element types, not number {tensor.data_type}.")
    wanted = bytes_of(tensor.data_type, shape)
    if tensor.HasField("raw_data"):
        held = len(tensor.raw_data)
        if wanted is not None and held != wanted:
            raise ModelError(f"{what} must hold {wanted} bytes, as its shape {list(shape)} says, not {held}.")
        return
    if wanted is None and tensor.data_type != tensor.STRING:
        return
    fields = ("float_data", "int32_data", "string_data", "int64_data", "double_data", "uint64_data")
    values = sum(len(getattr(tensor, field)) for field in fields)
    if values not in _numbers_for(tensor, prod(shape)):
        raise ModelError(f"{what} must hold {prod(shape)} values, as its shape {list(shape)} says, not {values}.")


def _numbers_for(tensor: Any, count: int) -> set[int]:
    """As how many numbers so many values may be written: complex ones as two, narrow ones packed."""
    if tensor.data_type in (tensor.COMPLEX64, tensor.COMPLEX128):
        return {2 * count}
    size = bytes_of(tensor.data_type, (count,))
    return {count, size} if size is not None and size < count else {count}
