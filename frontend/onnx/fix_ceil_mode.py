"""Rewriting of pools with ``ceil_mode`` to onnxruntime's window count: no window starts after the end of the input.

ONNX's shape inference counts such a window, so consumers would get a wrong shape. The pool is rewritten with
``ceil_mode`` 0 and padding that gives onnxruntime's count, on which both agree. If averages count padding and a partial
window along another dimension must not gain any, ``ceil_mode`` stays, and only the padding with the extra window is
reduced.
"""

from collections.abc import Sequence
from typing import Any

from lathe.frontend.onnx.host_worker import names_read
from lathe.frontend.onnx.optional_imports import optional_import
from lathe.frontend.onnx.value_types import type_of

POOLS = ("AveragePool", "LpPool", "MaxPool")


def fix_ceil_mode(proto: Any) -> bool:
    """Rewrite pools whose last window would start after the end of the input; whether there was any.

    All inferred shapes are removed then, and pools that depend on a rewritten one are left to the next round.
    """
    graph = proto.graph
    types = {each.name: type_of(each) for each in (*graph.input, *graph.value_info, *graph.output)}
    changed = set[str]()
    found = False
    for node in graph.node:
        if changed.intersection(names_read(node)):
            changed.update(node.output)
            continue
        known = types.get(node.input[0]) if node.op_type in POOLS and node.domain in ("", "ai.onnx") else None
        attributes = {each.name: value_of(each) for each in node.attribute}
        rewritten = None if known is None else _rewritten_attributes(attributes, known.shape[2:])
        if rewritten is not None:
            remaining = [each for each in node.attribute if each.name not in ("auto_pad", *rewritten)]
            remaining += [
                optional_import("onnx.helper").make_attribute(name, value) for name, value in rewritten.items()
            ]
            copies = [type(each).FromString(each.SerializeToString()) for each in remaining]
            del node.attribute[:]
            node.attribute.extend(copies)
            changed.update(node.output)
            found = True
    if found:
        del graph.value_info[:]
        for each in graph.output:
            if each.name in changed:
                each.type.tensor_type.ClearField("shape")
    return found


def value_of(attribute: Any) -> Any:
    """The Python value of a node's attribute; bytes are decoded."""
    found = optional_import("onnx.helper").get_attribute_value(attribute)
    return found.decode(errors="replace") if isinstance(found, bytes) else found


def _rewritten_attributes(attributes: dict[str, Any], sizes: Sequence[int]) -> dict[str, Any] | None:
    """``ceil_mode`` and ``pads`` that give onnxruntime's windows in ONNX; None if the counts agree already."""
    kernel = attributes.get("kernel_shape", ())
    rank = len(kernel)
    strides, apart = (tuple(attributes.get(name, (1,) * rank)) for name in ("strides", "dilations"))
    pads = list(attributes.get("pads", (0,) * 2 * rank))
    if not attributes.get("ceil_mode", 0) or attributes.get("auto_pad", "NOTSET") not in ("NOTSET", "VALID"):
        return None
    if not rank or {len(sizes), len(strides), len(apart)} != {rank} or len(pads) != 2 * rank or min(strides) < 1:
        return None
    after, reduced, dropped = pads[rank:], pads[rank:], False
    for axis, (size, step) in enumerate(zip(sizes, strides, strict=True)):
        reach, held = (kernel[axis] - 1) * apart[axis] + 1, size + pads[axis]
        count = -(-(held + pads[rank + axis] - reach) // step) + 1
        if (count - 1) * step >= held:
            dropped = True
            reduced[axis] = (count - 2) * step + reach - held
        else:
            after[axis] = max(after[axis], (count - 1) * step + reach - held)
    if not dropped:
        return None
    if after == pads[rank:] or not attributes.get("count_include_pad", 0):
        return {"ceil_mode": 0, "pads": [*pads[:rank], *after]}
    return {"ceil_mode": 1, "pads": [*pads[:rank], *reduced]} if min(reduced) >= 0 else None
