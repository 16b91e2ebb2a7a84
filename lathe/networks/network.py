"""Networks of ONNX: read, taken apart, built for a machine."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import prod
from types import MappingProxyType
from typing import Any

from lathe.autotune.autoschedule import cache_for
from lathe.autotune.cache_lock import wait_for_lock_once
from lathe.autotune.schedule_cache import ScheduleCache
from lathe.builder import are_builds_looked_at, build_with_stages
from lathe.configs import HardwareConfig
from lathe.configs.encoding import LOOKUP, RESCALE, RESCALE_ADD
from lathe.configs.html_repr import repr_html
from lathe.frontend.onnx.mac_counts import macs_of
from lathe.frontend.onnx.match_layers import recognise
from lathe.frontend.onnx.qdq_groups import Recognised
from lathe.frontend.onnx.quant_graph import (
    Concat,
    Conv,
    ConvTranspose,
    Extreme,
    Layer,
    Lookup,
    MaxPool,
    Pad,
    Product,
    Reshape,
    Resize,
    Slice,
    Sum,
    TensorProduct,
    Transpose,
)
from lathe.frontend.onnx.reading import Model, part_of, read_model
from lathe.networks.fuse_layers import with_clips_folded, with_parts_folded, with_tables_joined
from lathe.networks.im2col_stem import Im2colStem, stems_of
from lathe.networks.layer_labels import layers_of_stages
from lathe.networks.lowering import Lowered, lowered
from lathe.networks.network_cache import keep, network_key, read_kept
from lathe.networks.partition import HostPart, NpuPart, Part, parts_of
from lathe.networks.program import NetworkProgram
from lathe.networks.program_steps import HostNode, HostStep, LayerOfProgram, NpuStep, Step
from lathe.networks.size_checks import check_sizes
from lathe.networks.split_partitions import with_long_parts_cut
from lathe.networks.streams import UnmappedLayer, streams_of
from lathe.scheduler import Bound, bound
from lathe.scheduler.isel.rules import RULES, is_own
from lathe.scheduler.target.machine import check_machine

NOTHING: Mapping[str, str] = MappingProxyType({})
MOST_BOUNDS = 1 << 12
"""Bounds of layers that a network holds, the first given up first."""


@dataclass(eq=False, repr=False)
class Network:
    """A model of ONNX, its shapes known. ``build`` compiles it for a machine."""

    model: Model
    _bounds: dict[tuple[Layer, HardwareConfig], Bound] = field(default_factory=dict, init=False, repr=False)

    _repr_html_ = repr_html

    def __repr__(self) -> str:
        read, made = ", ".join(self.model.inputs), ", ".join(self.model.outputs)
        return f"Network({self.model.name}, {len(self.model.nodes)} nodes, {read} -> {made})"

    @cached_property
    def _named(self) -> frozenset[str]:
        """The tensors that stand in the model itself."""
        made = (name for node in self.model.nodes for name in node.output)
        return frozenset((*made, *self.model.inputs, *self.model.initializers))

    @cached_property
    def found(self) -> Recognised:
        """What of the model are layers of whole numbers."""
        found = recognise(self.model)
        found.layers = with_tables_joined(found.layers)
        inside = {number for layer in found.layers.values() for number in layer.nodes}
        outside = {name for number, node in enumerate(self.model.nodes) if number not in inside for name in node.input}
        outside |= {*self.model.outputs}
        layers = with_parts_folded(found.layers, self.model.types, outside, self._named)
        return replace(found, layers=with_clips_folded(layers, outside, self._named))

    @wait_for_lock_once()
    def build(self, config: HardwareConfig, *, cache: ScheduleCache | bool = True) -> NetworkProgram:
        """Compile the network for a machine.

        Layers of 8 bits that the machine takes become streams of instructions; the host computes all other nodes, and
        layers for which there is no mapping, as what does not fit the machine's memory. What has been compiled is kept
        in ``cache`` (True: the user's; False: not), by the content of all that it depends on.
        """
        check_machine(config, "build")
        kept = cache_for(self, cache, "build")
        if kept is None or are_builds_looked_at() or any(map(is_own, RULES)):
            return self._compiled(config)  # somebody looks at every build, or the key does not know the user's rules
        key = network_key(self.model, config)
        found = read_kept(kept, key)
        if found is None:
            found = self._compiled(config)
            keep(kept, key, found)
        return found

    def _compiled(self, config: HardwareConfig) -> NetworkProgram:
        unmapped: dict[str, str] = {}
        made: dict[tuple[object, ...], NpuStep] = {}

        def compiled(part: NpuPart) -> NpuStep:
            key = part.layers, part.inputs, part.outputs
            if key not in made:
                made[key] = self._npu_step(part, config)
            return made[key]

        steps: list[Step] | None = None
        while steps is None:
            try:
                steps = self._steps(config, compiled, unmapped)
            except UnmappedLayer as found:
                unmapped[found.layer.output] = found.reason
        types = self.model.types
        return NetworkProgram(
            self.model.name,
            config,
            tuple(steps),
            {name: types.get(name) for name in self.model.inputs},
            {name: types.get(name) for name in self.model.outputs},
        )

    def parts(self, config: HardwareConfig, unmapped: Mapping[str, str] = NOTHING) -> list[Part]:
        """What runs on a machine and what on the host, in the order in which it does.

        Layers ``unmapped``, by what they make, are on the host, and why.
        """
        found = parts_of(self.model, self.found, lambda layer: self._why_not(layer, config, unmapped) is None)
        return with_long_parts_cut(found)

    def reasons(
        self, part: HostPart, config: HardwareConfig, unmapped: Mapping[str, str] = NOTHING
    ) -> tuple[HostNode, ...]:
        """Of each node of the host its name, why it is there, and its multiply-accumulates."""
        nodes = [(number, self.model.nodes[number]) for number in part.nodes]
        return tuple(
            HostNode(
                node.name or node.output[0], self._why(number, node, config, unmapped), macs_of(self.model, node)
            )
            for number, node in nodes
        )  # fmt: skip

    def lowered(self, part: NpuPart, config: HardwareConfig) -> Lowered:
        """A part as the tensor program that is built for a machine."""
        lanes, stems = max(config.block_in, config.block_out), self._stems(part.layers, config)
        return lowered(part.layers, part.inputs, part.outputs, self.model.types, lanes, stems)

    def _stems(self, layers: Sequence[Layer], config: HardwareConfig) -> Mapping[str, Im2colStem]:
        return stems_of(layers, self.model.types, config, lambda tensor: tensor not in self.found.layers)

    def bound(self, layer: Layer, config: HardwareConfig) -> Bound:
        """What a layer takes at least, alone: the same for all machines that differ in when their memory answers."""
        key = layer, replace(config, memory=replace(config.memory, latency=0, outstanding_reads=1))
        if key not in self._bounds:
            inputs, stems = tuple(dict.fromkeys(layer.read)), self._stems((layer,), config)
            program = lowered((layer,), inputs, (layer.output,), self.model.types, stems=stems)
            self._bounds[key] = bound(program.results, config)
            if len(self._bounds) > MOST_BOUNDS:
                del self._bounds[next(iter(self._bounds))]
        return self._bounds[key]

    def _steps(
        self, config: HardwareConfig, compiled: Callable[[NpuPart], NpuStep], unmapped: Mapping[str, str]
    ) -> list[Step]:
        """The steps with ``unmapped`` layers on the host. Raises UnmappedLayer for another one."""
        steps: list[Step] = []
        for part in self.parts(config, unmapped):
            if isinstance(part, HostPart):
                steps.append(self._host_step(part, config, unmapped))
            else:
                steps += streams_of(part, compiled)
        return steps

    def _host_step(self, part: HostPart, config: HardwareConfig, unmapped: Mapping[str, str]) -> HostStep:
        proto = part_of(self.model, part.nodes, part.inputs, part.outputs)
        return HostStep(proto.SerializeToString(), part.inputs, part.outputs, self.reasons(part, config, unmapped))

    def _why(self, number: int, node: Any, config: HardwareConfig, unmapped: Mapping[str, str]) -> str:
        for layer in self.found.layers.values():
            if number in layer.nodes and (reason := self._why_not(layer, config, unmapped)) is not None:
                return reason
        if node.op_type in ("QuantizeLinear", "DequantizeLinear"):
            return "between float and 8 bits"
        return self.found.reasons.get(number) or self._why_of(node)

    def _why_of(self, node: Any) -> str:
        """Why no layer was looked for behind a node: of what its operands and results are."""
        known = [self.model.types.get(name) for name in (*node.input, *node.output) if name]
        dtypes = dict.fromkeys(each.dtype for each in known if each is not None)
        if any("float" in each for each in dtypes):
            return "it is computed in float"
        return f"no layer computes {node.op_type}" + (f" of {' and '.join(dtypes)}" if dtypes else "")

    def _why_not(self, layer: Layer, config: HardwareConfig, unmapped: Mapping[str, str]) -> str | None:
        """Why a machine does not take a layer, or one that only it wants and no node stands for."""
        reason = unmapped.get(layer.output) or why_not(layer, config)
        inner = iter(self.found.layers[name] for name in layer.read if name not in self._named)
        while reason is None and (each := next(inner, None)) is not None:
            reason = self._why_not(each, config, unmapped)
        return reason

    def _npu_step(self, part: NpuPart, config: HardwareConfig) -> NpuStep:
        check_sizes(part.layers, self.model.types, config)
        program = self.lowered(part, config)
        made, stages = build_with_stages(program.results, program.tensors, config, program.constants)
        # In their order: several layers may have one name.
        rows = tuple(
            LayerOfProgram(layer.name, label, self._macs(layer), self.bound(layer, config).cycles)
            for layer, label in zip(part.layers, program.names, strict=True)
        )
        labels = [made.labels[label] for label in made.label_of.tolist()]
        layer_of = layers_of_stages(stages, labels, list(program.names))
        return NpuStep(made, tuple(program.inputs), tuple(program.outputs), rows, layer_of)

    def _macs(self, layer: Layer) -> int:
        if isinstance(layer, Conv | Product):
            return prod(self.model.types[layer.output].shape) * int(layer.weights[0].size)
        if isinstance(layer, ConvTranspose):
            channels = self.model.types[layer.inputs[0]].shape[1]
            return prod(self.model.types[layer.inputs[0]].shape) * int(layer.weights.size) // channels
        if isinstance(layer, TensorProduct):
            return prod(self.model.types[layer.output].shape) * self.model.types[layer.inputs[0]].shape[-1]
        return 0


def program_of(network: Network, part: NpuPart) -> Lowered:
    """A part as a tensor program."""
    return lowered(part.layers, part.inputs, part.outputs, network.model.types)


MOVES = (Concat, Extreme, MaxPool, Pad, Reshape, Resize, Slice, Transpose)
"""Layers that compute nothing that a machine could lack."""


def why_not(layer: Layer, config: HardwareConfig) -> str | None:
    """What a machine lacks for a layer; None where it takes it."""
    wanted = [] if isinstance(layer, MOVES) or layer.of_output.dtype == "int32" else [RESCALE]
    if isinstance(layer, Sum) or layer.rest is not None:
        wanted = [RESCALE, RESCALE_ADD]
    if isinstance(layer, Lookup):
        wanted = [RESCALE, LOOKUP]
    missing = [each for each in wanted if each not in config.extensions]
    if missing:
        return f"machine {config.name!r} has no extension{'s' * (len(missing) > 1)} {' and '.join(map(repr, missing))}"
    return None


def from_onnx(source: object, shapes: Mapping[str, Sequence[int]] | None = None) -> Network:
    """The network of an ONNX model: a path or a ModelProto.

    ``shapes`` says what open shapes of inputs are, by name. Raises ModelError for a model that cannot be read or has
    inputs of open shapes that are not bound.

    >>> network = from_onnx("model.onnx", shapes={"x": [1, 3, 48, 192]})  # doctest: +SKIP
    >>> program = network.build(load_config("lathe16"))  # doctest: +SKIP
    """
    return Network(read_model(source, shapes))
