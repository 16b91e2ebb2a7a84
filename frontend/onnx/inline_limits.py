"""A limit on the number of nodes of a model after function inlining, which can grow exponentially."""

from graphlib import CycleError, TopologicalSorter
from typing import Any

from lathe.frontend.onnx.errors import ModelError
from lathe.frontend.onnx.rename_values import bodies_of

MOST_NODES = 1_000_000
"""The limit; large language models have some ten thousand nodes."""
_Key = tuple[str, str, str]


def check_inlined_size(proto: Any, name: str) -> None:
    """Raise ModelError for recursive functions, and for a model with too many nodes after inlining."""
    functions = {(each.domain, each.name, getattr(each, "overload", "")): each for each in proto.functions}
    calls = {key: _calls(each, functions) for key, each in functions.items()}
    try:
        order = list(TopologicalSorter({key: set(found) for key, (_, found) in calls.items()}).static_order())
    except CycleError as error:
        names = " -> ".join(":".join(filter(None, key)) for key in error.args[1])
        raise ModelError(f"functions of model {name!r} must not be recursive: {names}.") from None
    sizes: dict[_Key, int] = {}
    for key in order:
        sizes[key] = _size(calls[key], sizes)
    total = _size(_calls(proto.graph, functions), sizes)
    if total > MOST_NODES:
        raise ModelError(
            f"model {name!r} must have at most {MOST_NODES} nodes after inlining its functions, not {total}."
        )


def _calls(graph: Any, functions: dict[_Key, Any]) -> tuple[int, dict[_Key, int]]:
    """The number of nodes of a graph and its bodies, and of calls of each function."""
    count, found = 0, dict[_Key, int]()
    for node in graph.node:
        count += 1
        key = (node.domain, node.op_type, getattr(node, "overload", ""))
        if key in functions:
            found[key] = found.get(key, 0) + 1
        for body in bodies_of(node):
            inner, more = _calls(body, functions)
            count += inner
            for each, times in more.items():
                found[each] = found.get(each, 0) + times
    return count, found


def _size(calls: tuple[int, dict[_Key, int]], sizes: dict[_Key, int]) -> int:
    count, found = calls
    return count + sum(times * sizes[key] for key, times in found.items())
