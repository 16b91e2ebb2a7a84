"""Pools of which ONNX's inference counts more windows than onnxruntime makes: a Slice behind each says how many.

Where borders are found by ``auto_pad``, onnxruntime finds them as if windows had no dilation, and a window that would
begin behind the image is none; inference thinks otherwise. What reads the pool would have a shape that nobody makes.
The Slice takes all that there is, and inference believes it. (Where other attributes say the same, ``fix_ceil_mode.py``
has written these.)
"""

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from lathe.frontend.onnx.fix_ceil_mode import POOLS, value_of
from lathe.frontend.onnx.optional_imports import extra
from lathe.frontend.onnx.rename_values import all_names, fresh
from lathe.frontend.onnx.value_types import type_of

SUFFIX = ".windows"
FIRST_SLICE = 10
"""The first opset whose Slice reads its bounds; before, no pool counts otherwise."""


def with_windows_counted(proto: Any) -> bool:
    """Put a Slice behind each pool of fewer windows than inference says; whether there were any."""
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
        for place, name in enumerate(node.output):
            if name:
                node.output[place] = fresh(f"{name}{SUFFIX}", taken)
                nodes.append(_slice(graph, node, node.output[place], name, counts, taken))
                changed.add(name)
    if not changed:
        return False
    copies = [type(node).FromString(node.SerializeToString()) for node in nodes]
    del graph.node[:]
    graph.node.extend(copies)
    del graph.value_info[:]
    return True


def _slice(graph: Any, pool: Any, read: str, made: str, counts: Sequence[int], taken: set[str]) -> Any:
    from_array = extra("onnx.numpy_helper").from_array
    rank = len(counts)
    bounds = {"starts": [0] * rank, "ends": list(counts), "axes": list(range(2, 2 + rank))}
    names = []
    for what, values in bounds.items():
        name = fresh(f"{made}{SUFFIX}.{what}", taken)
        graph.initializer.append(from_array(np.array(values, np.int64), name))
        names.append(name)
    return extra("onnx.helper").make_node("Slice", [read, *names], [made], f"{pool.name or made}{SUFFIX}")


def _counts(told: Mapping[str, Any], sizes: Sequence[int]) -> Iterator[int]:
    """Windows along each dimension, as onnxruntime counts them; none where attributes do not fit each other."""
    kernel = told.get("kernel_shape", ())
    rank = len(kernel)
    strides, apart = (tuple(told.get(name, (1,) * rank)) for name in ("strides", "dilations"))
    pads = tuple(told.get("pads", (0,) * 2 * rank))
    automatic, ceiling = told.get("auto_pad", "NOTSET"), told.get("ceil_mode", 0)
    if not rank or {len(sizes), len(strides), len(apart)} != {rank} or len(pads) != 2 * rank or min(strides) < 1:
        return
    for axis, (size, taps, step) in enumerate(zip(sizes, kernel, strides, strict=True)):
        before, behind = pads[axis], pads[rank + axis]
        if automatic.startswith("SAME"):
            missing = (-(-size // step) - 1) * step + taps - size  # below 0 it takes away from the image
            before = missing // 2 if automatic == "SAME_UPPER" else missing - missing // 2
            behind = missing - before
        elif automatic == "VALID":
            before = behind = 0
        left = size + before + behind - (taps - 1) * apart[axis] - 1
        count = (-(-left // step) if ceiling else int(left / step)) + 1  # one where not even the first has room
        yield count - 1 if ceiling and (count - 1) * step >= size + before else count
