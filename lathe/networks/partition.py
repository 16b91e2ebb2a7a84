"""Which layers make one stream of instructions, and which nodes between them the host computes.

Parts run one after the other, by turns on the host and on the NPU. A node is in the earliest part of its kind behind
all that it reads, so that a part takes all that can be computed without waiting for the other side.
"""

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

from lathe.frontend.onnx.host_worker import names_read
from lathe.frontend.onnx.qdq_groups import Recognised
from lathe.frontend.onnx.quant_graph import Layer
from lathe.frontend.onnx.reading import Model


@dataclass(frozen=True, eq=False)
class NpuPart:
    """Layers in their order; tensors that come from outside, and those that others want."""

    layers: tuple[Layer, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


@dataclass(frozen=True, eq=False)
class HostPart:
    """Numbers of nodes in their order; tensors that come from outside, and those that others want."""

    nodes: tuple[int, ...]
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]


Part = NpuPart | HostPart
_Item = Layer | int


def parts_of(model: Model, found: Recognised, takes: Callable[[Layer], bool]) -> list[Part]:
    """The parts of a model in their order, with the layers that the machine takes on the NPU."""
    chosen = {name: layer for name, layer in found.layers.items() if takes(layer)}
    maker: dict[str, _Item] = {name: number for number, node in enumerate(model.nodes) for name in node.output if name}
    maker |= chosen
    given = {*model.inputs, *model.initializers}
    items = _needed(model, maker, given)
    level: dict[_Item, int] = {}
    for item in items:
        own = isinstance(item, Layer)
        before = [level[maker[name]] for name in _reads(model, item) if name not in given]
        least = max(before, default=0)
        level[item] = least + (least % 2 != own)
    return [
        _part(model, [item for item in items if level[item] == number], maker, level, number, given)
        for number in sorted(set(level.values()))
    ]


def _reads(model: Model, item: _Item) -> Sequence[str]:
    return item.read if isinstance(item, Layer) else names_read(model.nodes[item])


def _makes(model: Model, item: _Item) -> Sequence[str]:
    return (item.output,) if isinstance(item, Layer) else [name for name in model.nodes[item].output if name]


def _needed(model: Model, maker: dict[str, _Item], given: set[str]) -> list[_Item]:
    """What the outputs take, each behind what it reads."""
    found: dict[_Item, None] = {}
    open_items: list[tuple[_Item, Iterator[str]]] = []

    def visit(name: str) -> None:
        if name not in given and (item := maker[name]) not in found and all(item is not each for each, _ in open_items):
            open_items.append((item, iter(_reads(model, item))))

    for output in model.outputs:
        visit(output)
        while open_items:
            item, rest = open_items[-1]
            name = next(rest, None)
            if name is None:
                found[item] = None
                open_items.pop()
            else:
                visit(name)
    return list(found)


def _part(
    model: Model, items: list[_Item], maker: dict[str, _Item], level: dict[_Item, int], number: int, given: set[str]
) -> Part:
    own = {name for item in items for name in _makes(model, item)}
    read = dict.fromkeys(name for item in items for name in _reads(model, item))
    inputs = tuple(name for name in read if name not in own and name not in model.initializers)
    later = {
        name
        for item, at in level.items()
        if at != number
        for name in _reads(model, item)
        if name not in given and maker[name] in level
    }
    wanted = {*later, *model.outputs}
    outputs = tuple(name for item in items for name in _makes(model, item) if name in wanted)
    layers = tuple(item for item in items if isinstance(item, Layer))
    if layers:
        return NpuPart(layers, inputs, outputs)
    return HostPart(tuple(sorted(item for item in items if isinstance(item, int))), inputs, outputs)
