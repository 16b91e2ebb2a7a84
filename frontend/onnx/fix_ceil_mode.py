"""Pools that count a window begun, as onnxruntime counts them: one that would begin behind the image there is not.

ONNX's inference of shapes counts it, so readers would have the shape of a tensor that nobody makes. Such a pool is
written with ``ceil_mode`` 0 and the borders that leave as many windows as there are: both agree on these. Where borders
count and a window begun along another dimension must not, ``ceil_mode`` stays, and only the border behind which there
is one window too many becomes smaller: it ends with the last window.
"""

from collections.abc import Sequence
from typing import Any

from lathe.frontend.onnx.host_worker import names_read
from lathe.frontend.onnx.optional_imports import extra
from lathe.frontend.onnx.value_types import type_of

POOLS = ("AveragePool", "LpPool", "MaxPool")


def with_begun_windows_counted(proto: Any) -> bool:
    """Rewrite pools whose last window would begin behind the image; whether there were any.

    What reads their results has other shapes then: it waits for the next time, and no shape between is believed.
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
        told = {each.name: value_of(each) for each in node.attribute}
        written = None if known is None else _written(told, known.shape[2:])
        if written is not None:
            kept = [each for each in node.attribute if each.name not in ("auto_pad", *written)]
            kept += [extra("onnx.helper").make_attribute(name, value) for name, value in written.items()]
            copies = [type(each).FromString(each.SerializeToString()) for each in kept]
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
    """The value of an attribute of a node, texts as such."""
    found = extra("onnx.helper").get_attribute_value(attribute)
    return found.decode(errors="replace") if isinstance(found, bytes) else found


def _written(told: dict[str, Any], sizes: Sequence[int]) -> dict[str, Any] | None:
    """``ceil_mode`` and ``pads`` with which ONNX has onnxruntime's windows; None where it counts none besides."""
    kernel = told.get("kernel_shape", ())
    rank = len(kernel)
    strides, apart = (tuple(told.get(name, (1,) * rank)) for name in ("strides", "dilations"))
    pads = list(told.get("pads", (0,) * 2 * rank))
    if not told.get("ceil_mode", 0) or told.get("auto_pad", "NOTSET") not in ("NOTSET", "VALID"):
        return None
    if not rank or {len(sizes), len(strides), len(apart)} != {rank} or len(pads) != 2 * rank or min(strides) < 1:
        return None
    behind, shorter, dropped = pads[rank:], pads[rank:], False
    for axis, (size, step) in enumerate(zip(sizes, strides, strict=True)):
        reach, held = (kernel[axis] - 1) * apart[axis] + 1, size + pads[axis]
        count = -(-(held + pads[rank + axis] - reach) // step) + 1
        if (count - 1) * step >= held:
            dropped = True
            shorter[axis] = (count - 2) * step + reach - held
        else:
            behind[axis] = max(behind[axis], (count - 1) * step + reach - held)
    if not dropped:
        return None
    if behind == pads[rank:] or not told.get("count_include_pad", 0):
        return {"ceil_mode": 0, "pads": [*pads[:rank], *behind]}
    return {"ceil_mode": 1, "pads": [*pads[:rank], *shorter]} if min(shorter) >= 0 else None
