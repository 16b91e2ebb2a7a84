"""Networks in notebooks: inputs and outputs, and which layers run on the machine or the host CPU, and why."""

from collections import Counter
from collections.abc import Mapping

from lathe.configs.html_repr import html_of
from lathe.frontend.onnx.value_types import TensorType
from lathe.networks.explanation import NetworkExplanation
from lathe.networks.network import Network
from lathe.networks.program import NetworkProgram
from lathe.networks.program_steps import NpuStep
from lathe.reports.markup import Markup
from lathe.reports.notebooks.fragments import facts, folded, grouped, hbox, panel, table, text_block


@html_of.register
def network(value: Network) -> str:
    """A model: its inputs and outputs, and its quantised layers."""
    model, found = value.model, value.found
    layers = Counter(type(layer).__name__ for layer in found.layers.values())
    operators = Counter(node.op_type for node in model.nodes)
    outside = [
        (model.nodes[number].name or model.nodes[number].output[0], model.nodes[number].op_type, why)
        for number, why in sorted(found.reasons.items())
    ]
    parts = [
        _ports({name: model.types.get(name) for name in model.inputs},
               {name: model.types.get(name) for name in model.outputs}),
        hbox(table(("quantised layers", "count"), layers.most_common()),
             table(("ONNX operators", "count"), operators.most_common(), most=12)),
    ]  # fmt: skip
    if outside:
        parts.append(folded("Nodes outside quantised layers", table(("node", "operator", "why"), outside, left=3)))
    return panel(f"Network {model.name}: {grouped(len(model.nodes))} nodes", *parts)


@html_of.register
def network_program(value: NetworkProgram) -> str:
    """A compiled network: its streams, and the nodes on the host CPU between them."""
    layers, nodes = [], []
    for number, step in enumerate(value.steps):
        if isinstance(step, NpuStep):
            layers += [(each.name, number, each.macs, each.bound) for each in step.layers]
        else:
            nodes += [(each.name, number, each.why) for each in step.nodes]
    head = facts([
        ("machine", value.config.name),
        ("streams", len(value.parts)),
        ("instructions", sum(len(each.instructions) for each in value.parts)),
        ("layers on the machine", len(layers)),
        ("nodes on the host CPU", len(nodes)),
    ])  # fmt: skip
    columns = ("layer", "step", "MACs", "bound on cycles")
    parts = [hbox(head, _ports(value.inputs, value.outputs)), folded("Layers on the machine", table(columns, layers))]
    if nodes:
        parts.append(folded("Nodes on the host CPU", table(("node", "step", "why"), nodes)))
    return panel(f"Network {value.name} for {value.config.name}", *parts)


@html_of.register
def network_explanation(value: NetworkExplanation) -> str:
    """Where each layer runs, and why."""
    rows = [
        (each.name, f"stream {each.stream}" if each.stream else "host", each.bound or None, each.limit, each.why)
        for each in value.layers
    ]
    layers_table = table(("layer", "where", "bound on cycles", "bound by", "why"), rows, left=2)
    maps = "maps" if value.maps else "does not map"
    title = f"{value.network} on {value.machine}: {maps}"
    return panel(title, layers_table, folded("The complete explanation", text_block(str(value))))


def _ports(inputs: Mapping[str, TensorType | None], outputs: Mapping[str, TensorType | None]) -> Markup:
    rows = [
        (name, direction, "" if kind is None else kind.dtype, "" if kind is None else " × ".join(map(str, kind.shape)))
        for direction, ports in (("input", inputs), ("output", outputs))
        for name, kind in ports.items()
    ]
    return table(("tensor", "", "dtype", "shape"), rows, left=4)
