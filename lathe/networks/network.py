"""Networks imported from ONNX: partitioning and compilation for a machine."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import prod
from types import MappingProxyType
from typing import Any

from lathe.autotune.autoschedule import cache_for
from lathe.autotune.cache_lock import wait_for_lock_once
from lathe.autotune.schedule_cache import ScheduleCache
from lathe.builder import build_with_stages, has_build_observers
from lathe.configs import HardwareConfig
from lathe.configs.encoding import LOOKUP, RESCALE, RESCALE_ADD
from lathe.configs.html_repr import repr_html
from lathe.frontend.onnx.mac_counts import macs_of
from lathe.frontend.onnx.match_layers import match_layers
from lathe.frontend.onnx.qdq_groups import MatchedLayers
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
from lathe.frontend.onnx.reading import Model, read_model, submodel
from lathe.networks.fuse_layers import fuse_channel_slices, fuse_lookups, fuse_relus
from lathe.networks.im2col_stem import Im2colStem, im2col_stems
from lathe.networks.layer_labels import layers_of_stages
from lathe.networks.lowering import Lowered, lowered
from lathe.networks.network_cache import network_key, read_cached, write_cached
from lathe.networks.partition import HostPartition, NpuPartition, Partition, partition_model
from lathe.networks.program import NetworkProgram
from lathe.networks.program_steps import HostNode, HostStep, NpuStep, ProgramLayer, Step
from lathe.networks.size_checks import check_sizes
from lathe.networks.split_partitions import split_long_partitions
from lathe.networks.streams import UnmappedLayer, compile_streams
from lathe.scheduler import Bound, bound
from lathe.scheduler.isel.rules import RULES, is_user_rule
from lathe.scheduler.target.target import check_machine

NOTHING: Mapping[str, str] = MappingProxyType({})
MAX_CACHED_BOUNDS = 1 << 12
"""The number of layers' lower bounds that a network caches, first in, first out."""


@dataclass(eq=False, repr=False)
class Network:
    """An ONNX model with static shapes. ``build`` compiles it for a machine."""

    model: Model
    _bounds: dict[tuple[Layer, HardwareConfig], Bound] = field(default_factory=dict, init=False, repr=False)

    _repr_html_ = repr_html

    def __repr__(self) -> str:
        read, made = ", ".join(self.model.inputs), ", ".join(self.model.outputs)
        return f"Network({self.model.name}, {len(self.model.nodes)} nodes, {read} -> {made})"

    @cached_property
    def _named(self) -> frozenset[str]:
        """The tensors of the model itself, not introduced by matching."""
        made = (name for node in self.model.nodes for name in node.output)
        return frozenset((*made, *self.model.inputs, *self.model.initializers))

    @cached_property
    def found(self) -> MatchedLayers:
        """The quantised layers of the model, after fusion."""
        found = match_layers(self.model)
        found.layers = fuse_lookups(found.layers)
        inside = {number for layer in found.layers.values() for number in layer.nodes}
        outside = {name for number, node in enumerate(self.model.nodes) if number not in inside for name in node.input}
        outside |= {*self.model.outputs}
        layers = fuse_channel_slices(found.layers, self.model.types, outside, self._named)
        return replace(found, layers=fuse_relus(layers, outside, self._named))

    @wait_for_lock_once()
    def build(self, config: HardwareConfig, *, cache: ScheduleCache | bool = True) -> NetworkProgram:
        """Compile the network for a machine.

        Quantised layers that the machine supports become instruction streams; the host CPU computes all other nodes,
        and layers that the scheduler cannot map, for example because they do not fit the scratchpads. Compiled networks
        are cached in ``cache`` (True: the user's cache; False: none), by the content of all that they depend on.
        """
        check_machine(config, "build")
        store = cache_for(self, cache, "build")
        if store is None or has_build_observers() or any(map(is_user_rule, RULES)):
            return self._compiled(config)  # builds are observed, or the key lacks the user's rules
        key = network_key(self.model, config)
        found = read_cached(store, key)
        if found is None:
            found = self._compiled(config)
            write_cached(store, key, found)
        return found

    def _compiled(self, config: HardwareConfig) -> NetworkProgram:
        unmapped: dict[str, str] = {}
        made: dict[tuple[object, ...], NpuStep] = {}

        def compiled(partition: NpuPartition) -> NpuStep:
            key = partition.layers, partition.inputs, partition.outputs
            if key not in made:
                made[key] = self._npu_step(partition, config)
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

    def parts(self, config: HardwareConfig, unmapped: Mapping[str, str] = NOTHING) -> list[Partition]:
        """The partitions for the NPU and the host CPU, in execution order.

        ``unmapped``: layers that must run on the host CPU, by output, with the reason.
        """
        found = partition_model(self.model, self.found, lambda layer: self._why_not(layer, config, unmapped) is None)
        return split_long_partitions(found)

    def reasons(
        self, partition: HostPartition, config: HardwareConfig, unmapped: Mapping[str, str] = NOTHING
    ) -> tuple[HostNode, ...]:
        """The nodes of a host partition, with the reason and the multiply-accumulates of each."""
        nodes = [(number, self.model.nodes[number]) for number in partition.nodes]
        return tuple(
            HostNode(
                node.name or node.output[0], self._why(number, node, config, unmapped), macs_of(self.model, node)
            )
            for number, node in nodes
        )  # fmt: skip

    def lowered(self, partition: NpuPartition, config: HardwareConfig) -> Lowered:
        """The tensor program of a partition for a machine."""
        lanes, stems = max(config.block_in, config.block_out), self._stems(partition.layers, config)
        return lowered(partition.layers, partition.inputs, partition.outputs, self.model.types, lanes, stems)

    def _stems(self, layers: Sequence[Layer], config: HardwareConfig) -> Mapping[str, Im2colStem]:
        return im2col_stems(layers, self.model.types, config, lambda tensor: tensor not in self.found.layers)

    def bound(self, layer: Layer, config: HardwareConfig) -> Bound:
        """The lower bound on the cycles of a layer alone; it does not depend on the memory's latency."""
        key = layer, replace(config, memory=replace(config.memory, latency=0, outstanding_reads=1))
        if key not in self._bounds:
            inputs, stems = tuple(dict.fromkeys(layer.computed_inputs)), self._stems((layer,), config)
            program = lowered((layer,), inputs, (layer.output,), self.model.types, stems=stems)
            self._bounds[key] = bound(program.results, config)
            if len(self._bounds) > MAX_CACHED_BOUNDS:
                del self._bounds[next(iter(self._bounds))]
        return self._bounds[key]

    def _steps(
        self, config: HardwareConfig, compiled: Callable[[NpuPartition], NpuStep], unmapped: Mapping[str, str]
    ) -> list[Step]:
        """The steps with ``unmapped`` layers on the host CPU. Raises UnmappedLayer for a further one."""
        steps: list[Step] = []
        for partition in self.parts(config, unmapped):
            if isinstance(partition, HostPartition):
                steps.append(self._host_step(partition, config, unmapped))
            else:
                steps += compile_streams(partition, compiled)
        return steps

    def _host_step(self, part: HostPartition, config: HardwareConfig, unmapped: Mapping[str, str]) -> HostStep:
        proto = submodel(self.model, part.nodes, part.inputs, part.outputs)
        return HostStep(proto.SerializeToString(), part.inputs, part.outputs, self.reasons(part, config, unmapped))

    def _why(self, number: int, node: Any, config: HardwareConfig, unmapped: Mapping[str, str]) -> str:
        for layer in self.found.layers.values():
            if number in layer.nodes and (reason := self._why_not(layer, config, unmapped)) is not None:
                return reason
        if node.op_type in ("QuantizeLinear", "DequantizeLinear"):
            return "it converts between float and 8 bits"
        return self.found.reasons.get(number) or self._why_of(node)

    def _why_of(self, node: Any) -> str:
        """Why a node outside of QDQ groups is no layer: from the types of its operands and results."""
        known = [self.model.types.get(name) for name in (*node.input, *node.output) if name]
        dtypes = dict.fromkeys(each.dtype for each in known if each is not None)
        if any("float" in each for each in dtypes):
            return "it is computed in float"
        return f"no NPU layer implements {node.op_type}" + (f" of {' and '.join(dtypes)}" if dtypes else "")

    def _why_not(self, layer: Layer, config: HardwareConfig, unmapped: Mapping[str, str]) -> str | None:
        """Why a layer, or a producer of it that is no node of the model, cannot run on a machine; None if it can."""
        reason = unmapped.get(layer.output) or unsupported_reason(layer, config)
        inner = iter(self.found.layers[name] for name in layer.computed_inputs if name not in self._named)
        while reason is None and (each := next(inner, None)) is not None:
            reason = self._why_not(each, config, unmapped)
        return reason

    def _npu_step(self, partition: NpuPartition, config: HardwareConfig) -> NpuStep:
        check_sizes(partition.layers, self.model.types, config)
        program = self.lowered(partition, config)
        compiled, stages = build_with_stages(program.results, program.tensors, config, program.constants)
        # By position: several layers may have the same name.
        rows = tuple(
            ProgramLayer(layer.name, label, self._macs(layer), self.bound(layer, config).cycles)
            for layer, label in zip(partition.layers, program.names, strict=True)
        )
        labels = [compiled.labels[label] for label in compiled.label_of.tolist()]
        layer_of = layers_of_stages(stages, labels, list(program.names))
        return NpuStep(compiled, tuple(program.inputs), tuple(program.outputs), rows, layer_of)

    def _macs(self, layer: Layer) -> int:
        if isinstance(layer, Conv | Product):
            return prod(self.model.types[layer.output].shape) * int(layer.weights[0].size)
        if isinstance(layer, ConvTranspose):
            channels = self.model.types[layer.inputs[0]].shape[1]
            return prod(self.model.types[layer.inputs[0]].shape) * int(layer.weights.size) // channels
        if isinstance(layer, TensorProduct):
            return prod(self.model.types[layer.output].shape) * self.model.types[layer.inputs[0]].shape[-1]
        return 0


def program_of(network: Network, partition: NpuPartition) -> Lowered:
    """The tensor program of a partition, independent of a machine."""
    return lowered(partition.layers, partition.inputs, partition.outputs, network.model.types)


NO_EXTENSION_LAYERS = (Concat, Extreme, MaxPool, Pad, Reshape, Resize, Slice, Transpose)
"""Layers that need no extension of the machine."""


def unsupported_reason(layer: Layer, config: HardwareConfig) -> str | None:
    """The extensions that a machine lacks for a layer, as a reason; None if it supports the layer."""
    needed = [] if isinstance(layer, NO_EXTENSION_LAYERS) or layer.output_quant.dtype == "int32" else [RESCALE]
    if isinstance(layer, Sum) or layer.bias_residual is not None:
        needed = [RESCALE, RESCALE_ADD]
    if isinstance(layer, Lookup):
        needed = [RESCALE, LOOKUP]
    missing = [each for each in needed if each not in config.extensions]
    if missing:
        return f"machine {config.name!r} has no extension{'s' * (len(missing) > 1)} {' and '.join(map(repr, missing))}"
    return None


def from_onnx(source: object, shapes: Mapping[str, Sequence[int]] | None = None) -> Network:
    """Import an ONNX model: a path or a ModelProto.

    ``shapes`` binds dynamic shapes of inputs, by name. Raises ModelError for a model that cannot be read or has inputs
    with dynamic shapes that are not bound.

    >>> network = from_onnx("model.onnx", shapes={"x": [1, 3, 48, 192]})  # doctest: +SKIP
    >>> program = network.build(load_config("lathe16"))  # doctest: +SKIP
    """
    return Network(read_model(source, shapes))
