"""A Slice after pools for which ONNX's shape inference counts more windows than onnxruntime computes.

For ``auto_pad``, onnxruntime ignores dilations, and drops a window that would start after the end of the input; shape
inference does neither, so consumers would get a wrong shape. The Slice takes the whole result, and gives inference the
right shape. (``fix_ceil_mode.py`` rewrites pools for which other attributes give the same windows.)
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from lathe.frontend.onnx.fix_ceil_mode import POOLS, value_of
from lathe.frontend.onnx.optional_imports import optional_import
from lathe.frontend.onnx.rename_values import all_names, unique_name
from lathe.frontend.onnx.value_types import type_of

SUFFIX = ".windows"
FIRST_SLICE = 10
"""The first opset whose Slice has its bounds as inputs; in older ones the counts agree."""


def fix_pool_shapes(proto: Any) -> bool:
    """Add a Slice after each pool with fewer windows than inferred; whether there was any."""
    graph = proto.graph
    opset = next((each.version for each in proto.opset_import if each.domain in ("", "ai.onnx")), 1)
    if opset < FIRST_SLICE:
        return False
    types = {each.name: type_of(each) for each in (*graph.input, *graph.value_info, *graph.output)}
    done = {node.input[0] for node in graph.node if node.op_type == "Slice" and node.name.endswith(SUFFIX)}
    taken = all_names(graph)
    nodes, changed = list[Any](), set[str]()
    for node in graph.node:
        nodes.append(node)
        if node.op_type not in POOLS or node.domain not in ("", "ai.onnx"):
            continue
        data, made = types.get(node.input[0]), types.get(node.output[0])
        if data is None or made is None:
            continue
        counts = tuple(_counts({each.name: value_of(each) for each in node.attribute}, data.shape[2:]))
        if min(counts, default=0) < 1 or node.output[0] in done or all(map(int.__ge__, counts, made.shape[2:])):
            continue
        for index, name in enumerate(node.output):
            if name:
                node.output[index] = unique_name(f"{name}{SUFFIX}", taken)
                nodes.append(_slice(graph, node, node.output[index], name, counts, taken))
                changed.add(name)
    if not changed:
        return False
    copies = [type(node).FromString(node.SerializeToString()) for node in nodes]
    del graph.node[:]
    graph.node.extend(copies)
    del graph.value_info[:]
    return True


def _slice(graph: Any, pool: Any, read: str, made: str, counts: Sequence[int], taken: set[str]) -> Any:
    from_array = optional_import("onnx.numpy_helper").from_array
    rank = len(counts)
    bounds = {"starts": [0] * rank, "ends": list(counts), "axes": list(range(2, 2 + rank))}
    names = []
    for what, values in bounds.items():
        name = unique_name(f"{made}{SUFFIX}.{what}", taken)
        graph.initializer.append(from_array(np.array(values, np.int64), name))
        names.append(name)
    return optional_import("onnx.helper").make_node("Slice", [read, *names], [made], f"{pool.name or made}{SUFFIX}")


def _counts(attributes: Mapping[str, Any], sizes: Sequence[int]) -> Iterator[int]:
    """The number of windows along each dimension in onnxruntime; none if the attributes are inconsistent."""
    kernel = attributes.get("kernel_shape", ())
    rank = len(kernel)
    strides, apart = (tuple(attributes.get(name, (1,) * rank)) for name in ("strides", "dilations"))
    pads = tuple(attributes.get("pads", (0,) * 2 * rank))
    auto_pad, ceiling = attributes.get("auto_pad", "NOTSET"), attributes.get("ceil_mode", 0)
    if not rank or {len(sizes), len(strides), len(apart)} != {rank} or len(pads) != 2 * rank or min(strides) < 1:
        return
    for axis, (size, taps, step) in enumerate(zip(sizes, kernel, strides, strict=True)):
        before, after = pads[axis], pads[rank + axis]
        if auto_pad.startswith("SAME"):
            missing = (-(-size // step) - 1) * step + taps - size  # negative: the input is cropped
            before = missing // 2 if auto_pad == "SAME_UPPER" else missing - missing // 2
            after = missing - before
        elif auto_pad == "VALID":
            before = after = 0
        span = size + before + after - (taps - 1) * apart[axis] - 1
        count = (-(-span // step) if ceiling else int(span / step)) + 1  # at least one, even if it does not fit
        yield count - 1 if ceiling and (count - 1) * step >= size + before else count
