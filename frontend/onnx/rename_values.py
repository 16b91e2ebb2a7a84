"""Renaming of tensors of a graph, in nodes and in the bodies of their control flow."""

from collections.abc import Iterator, Mapping
from typing import Any


def bodies_of(node: Any) -> Iterator[Any]:
    """The graphs of a node's attributes: branches and loop bodies."""
    for each in node.attribute:
        if each.HasField("g"):
            yield each.g
        yield from each.graphs


def rename(node: Any, names: Mapping[str, str]) -> None:
    """Rename a node's inputs and outputs, also in its bodies, except tensors that a body defines."""
    for field in (node.input, node.output):
        for index, name in enumerate(field):
            if name in names:
                field[index] = names[name]
    for body in bodies_of(node):
        own = defined_in(body)
        inner = {name: new for name, new in names.items() if name not in own}
        for each in body.node:
            rename(each, inner)
        for each in body.output:
            each.name = inner.get(each.name, each.name)


def defined_in(graph: Any) -> set[str]:
    """The tensors that a graph defines: inputs, initializers and node outputs."""
    found = {each.name for each in (*graph.input, *graph.initializer)}
    found |= {each.values.name for each in graph.sparse_initializer}
    return found | {name for node in graph.node for name in node.output if name}


def all_names(graph: Any) -> set[str]:
    """All tensor names in a graph and its bodies."""
    found = defined_in(graph)
    for node in graph.node:
        found |= {*node.input}
        for body in bodies_of(node):
            found |= all_names(body)
    return found


def unique_name(name: str, taken: set[str]) -> str:
    """A unique name, with a number if ``name`` is taken; adds it to ``taken``."""
    found, number = name, 1
    while found in taken:
        number += 1
        found = f"{name}_{number}"
    taken.add(found)
    return found
