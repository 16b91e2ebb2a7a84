"""Check that names in a model's file are UTF-8; a file may have any bytes instead."""

from typing import Any

from lathe.frontend.onnx.errors import ModelError

_ANY_BYTES = frozenset({"doc_string", "metadata_props", "producer_name", "producer_version"})
"""Fields that are not used."""
_TEXT, _MESSAGE = 9, 11  # types of fields (google/protobuf/descriptor.proto)
_NAMED = {"TensorProto": "tensor", "ValueInfoProto": "value", "AttributeProto": "attribute"}


def check_texts(proto: Any, name: str) -> None:
    """Raise ModelError for a name, operator or domain that is not UTF-8, with the node or tensor that has it."""
    _check(proto, f"model {name!r}")


def _check(message: Any, where: str) -> None:
    for field, value in message.ListFields():
        if field.name in _ANY_BYTES or field.type not in (_TEXT, _MESSAGE):
            continue
        each: Any
        for each in [value] if isinstance(value, str | bytes) or hasattr(value, "ListFields") else value:
            if field.type == _TEXT and isinstance(each, bytes):
                raise ModelError(f"{field.name} of {where} must be UTF-8 text, not {each!r}.")
            if field.type == _MESSAGE:
                _check(each, _named(each, where))


def _named(message: Any, where: str) -> str:
    """A description of a protobuf message: a node by name or first output, a tensor or value by name, if any."""
    kind = type(message).__name__
    if kind == "NodeProto":
        known = [each for each in (message.name, *message.output) if each and isinstance(each, str)]
        return f"node {known[0]!r} of {where}" if known else f"a node of {where}"
    if kind not in _NAMED:
        return where
    if message.name and isinstance(message.name, str):
        return f"{_NAMED[kind]} {message.name!r} of {where}"
    return f"a {_NAMED[kind]} of {where}"
