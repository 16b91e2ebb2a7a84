"""How many nodes a model has when its functions stand for theirs: a few lines can mean more than a lifetime's work."""

from graphlib import CycleError, TopologicalSorter
from typing import Any

from lathe.frontend.onnx.errors import ModelError
from lathe.frontend.onnx.rename_values import bodies_of

MOST_NODES = 1_000_000
"""Nodes that a model may have; large language models have some ten thousand."""
_Key = tuple[str, str, str]


def check_expansion(proto: Any, name: str) -> None:
    """Raises ModelError for functions that call themselves, and for a model of more nodes than anybody writes."""
    functions = {(each.domain, each.name, getattr(each, "overload", "")): each for each in proto.functions}
    calls = {key: _calls(each, functions) for key, each in functions.items()}
    try:
        order = list(TopologicalSorter({key: set(found) for key, (_, found) in calls.items()}).static_order())
    except CycleError as error:
        names = " -> ".join(":".join(filter(None, key)) for key in error.args[1])
        raise ModelError(f"functions of model {name!r} must not call themselves, as in {names}.") from None
    sizes: dict[_Key, int] = {}
    for key in order:
        sizes[key] = _size(calls[key], sizes)
    total = _size(_calls(proto.graph, functions), sizes)
    if total > MOST_NODES:
        raise ModelError(
            f"model {name!r} must have at most {MOST_NODES} nodes where functions stand for theirs, not {total}."
        )


def _calls(graph: Any, functions: dict[_Key, Any]) -> tuple[int, dict[_Key, int]]:
    """Nodes of a graph and of the bodies in it, and how often it calls each function."""
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
