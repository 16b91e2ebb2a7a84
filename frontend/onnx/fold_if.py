"""Folding of ``If`` nodes with a constant condition: the taken branch replaces the node."""

from copy import deepcopy
from typing import Any

from lathe.frontend.onnx.optional_imports import optional_import
from lathe.frontend.onnx.rename_values import all_names, defined_in, rename, unique_name


def fold_if(proto: Any) -> bool:
    """Inline a branch of each ``If`` whose condition is an initializer; whether there was any.

    Nodes keep their names. Tensors get unique ones.
    """
    graph = proto.graph
    held = {each.name: each for each in graph.initializer}
    taken: set[str] | None = None
    nodes: list[Any] = []
    for node in graph.node:
        condition = held.get(node.input[0]) if node.op_type == "If" and node.domain in ("", "ai.onnx") else None
        if condition is None:
            nodes.append(node)
            continue
        taken = taken if taken is not None else all_names(graph)
        value = optional_import("onnx.numpy_helper").to_array(condition)
        branch = "then_branch" if value.reshape(-1)[0] else "else_branch"
        body = next(each.g for each in node.attribute if each.name == branch)
        nodes += _inlined(node, body, graph, taken)
    if taken is None:
        return False
    copies = [deepcopy(node) for node in nodes]
    del graph.node[:]
    graph.node.extend(copies)
    return True


def _inlined(node: Any, body: Any, graph: Any, taken: set[str]) -> list[Any]:
    """The nodes of a branch with tensor names for the enclosing graph, which gets the branch's constants."""
    make_node = optional_import("onnx.helper").make_node
    made = {name for each in body.node for name in each.output if name}
    names: dict[str, str] = {}
    copied: list[tuple[str, str]] = []
    for outer, inner in zip(node.output, body.output, strict=True):
        if not outer:
            continue
        if inner.name in made and inner.name not in names:
            names[inner.name] = outer
        else:
            copied.append((inner.name, outer))
    for name in sorted(defined_in(body) - names.keys()):
        names[name] = unique_name(f"{node.name or node.output[0]}/{name}", taken)
    for each in body.initializer:
        held = deepcopy(each)
        held.name = names[each.name]
        graph.initializer.append(held)
    for each in body.sparse_initializer:
        sparse = deepcopy(each)
        sparse.values.name = names[each.values.name]
        graph.sparse_initializer.append(sparse)
    found = [deepcopy(each) for each in body.node]
    for each in found:
        rename(each, names)
    return [*found, *(make_node("Identity", [names.get(inner, inner)], [outer], outer) for inner, outer in copied)]
