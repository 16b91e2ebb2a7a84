"""Partitioning of a model between the NPU and the host CPU.

Partitions run one after the other, alternately on the host CPU and the NPU. Each layer and node is in the earliest
partition of its kind after all its operands, so that a partition has all that can be computed without the other side.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from lathe.frontend.onnx.host_worker import names_read
from lathe.frontend.onnx.qdq_groups import MatchedLayers
from lathe.frontend.onnx.quant_graph import Layer
from lathe.frontend.onnx.reading import Model


@dataclass(frozen=True, eq=False)
class NpuPartition:
    """A partition of layers for the NPU, in topological order, with its inputs and outputs."""

    layers: tuple[Layer, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class HostPartition:
    """A partition of nodes (by number) for the host CPU, in topological order, with its inputs and outputs."""

    nodes: tuple[int, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


Partition = NpuPartition | HostPartition
_Item = Layer | int


def partition_model(model: Model, found: MatchedLayers, takes: Callable[[Layer], bool]) -> list[Partition]:
    """The partitions of a model in execution order; layers that the machine ``takes`` are on the NPU."""
    chosen = {name: layer for name, layer in found.layers.items() if takes(layer)}
    source: dict[str, _Item] = {name: number for number, node in enumerate(model.nodes) for name in node.output if name}
    source |= chosen
    given = {*model.inputs, *model.initializers}
    items = _needed(model, source, given)
    level: dict[_Item, int] = {}
    for item in items:
        own = isinstance(item, Layer)
        before = [level[source[name]] for name in _reads(model, item) if name not in given]
        least = max(before, default=0)
        level[item] = least + (least % 2 != own)
    return [
        _partition(model, [item for item in items if level[item] == number], source, level, number, given)
        for number in sorted(set(level.values()))
    ]


def _reads(model: Model, item: _Item) -> Sequence[str]:
    return item.computed_inputs if isinstance(item, Layer) else names_read(model.nodes[item])


def _makes(model: Model, item: _Item) -> Sequence[str]:
    return (item.output,) if isinstance(item, Layer) else [name for name in model.nodes[item].output if name]


def _needed(model: Model, source: dict[str, _Item], given: set[str]) -> list[_Item]:
    """The layers and nodes that the outputs depend on, in topological order."""
    found: dict[_Item, None] = {}
    stack: list[tuple[_Item, Iterator[str]]] = []

    def visit(name: str) -> None:
        if name not in given and (item := source[name]) not in found and all(item is not each for each, _ in stack):
            stack.append((item, iter(_reads(model, item))))

    for output in model.outputs:
        visit(output)
        while stack:
            item, rest = stack[-1]
            name = next(rest, None)
            if name is None:
                found[item] = None
                stack.pop()
            else:
                visit(name)
    return list(found)


def _partition(
    model: Model, items: list[_Item], source: dict[str, _Item], level: dict[_Item, int], number: int, given: set[str]
) -> Partition:
    own = {name for item in items for name in _makes(model, item)}
    read = dict.fromkeys(name for item in items for name in _reads(model, item))
    inputs = tuple(name for name in read if name not in own and name not in model.initializers)
    later = {
        name
        for item, at in level.items()
        if at != number
        for name in _reads(model, item)
        if name not in given and source[name] in level
    }
    needed = {*later, *model.outputs}
    outputs = tuple(name for item in items for name in _makes(model, item) if name in needed)
    layers = tuple(item for item in items if isinstance(item, Layer))
    if layers:
        return NpuPartition(layers, inputs, outputs)
    return HostPartition(tuple(sorted(item for item in items if isinstance(item, int))), inputs, outputs)
