"""``explain`` of a network: where each layer runs and why, its lower bound, and the rules that select its chunks."""

from collections.abc import Iterator
from dataclasses import asdict, dataclass
from typing import Any

from lathe.autotune import explain
from lathe.configs import HardwareConfig
from lathe.configs.extensions import PURPOSES
from lathe.configs.html_repr import repr_html
from lathe.networks.layer_labels import layers_by_stage
from lathe.networks.lowering import Lowered
from lathe.networks.network import Network
from lathe.networks.partition import HostPartition, NpuPartition
from lathe.scheduler import Explanation
from lathe.scheduler.inspect.explanation import purpose_of


@dataclass(frozen=True)
class LayerExplained:
    """A layer of stream number ``stream``, from 1 on, or a host node with stream 0 and the reason ``why``.

    ``bound``: lower bound on the cycles of the layer alone; ``limit``: the limiting resource, "compute" or "memory".
    ``stages``: the layer's stages in the stream's explanation.
    """

    name: str
    where: str
    stream: int
    why: str
    bound: int = 0
    limit: str = ""
    stages: tuple[str, ...] = ()


@dataclass(frozen=True)
class NetworkExplanation:
    """Layers in execution order, and the explanation of each stream."""

    network: str
    machine: str
    layers: tuple[LayerExplained, ...]
    streams: tuple[Explanation, ...]

    _repr_html_ = repr_html

    @property
    def maps(self) -> bool:
        """Whether all streams can be compiled to instructions."""
        return all(each.maps for each in self.streams)

    def to_dict(self) -> dict[str, Any]:
        """Plain nested values for JSON."""
        return {
            "network": self.network,
            "machine": self.machine,
            "maps": self.maps,
            "layers": [asdict(each) for each in self.layers],
            "streams": [each.to_dict() for each in self.streams],
        }

    def __str__(self) -> str:
        return "".join(f"{line}\n" for line in self._lines())

    def _lines(self) -> Iterator[str]:
        own = sum(1 for each in self.layers if each.stream)
        yield (
            f"{self.network} on {self.machine}: {_many(own, 'layer')} on the NPU in "
            f"{_many(len(self.streams), 'stream')}, {_many(len(self.layers) - own, 'node')} on the host"
        )
        shown: set[int] = set()
        for layer in self.layers:
            if not layer.stream:
                yield f"{layer.name}: on the host; {layer.why}"
                continue
            stream = self.streams[layer.stream - 1]
            if layer.stream not in shown:
                shown.add(layer.stream)
                yield from _of_stream(stream, layer.stream)
            yield f"{layer.name}: stream {layer.stream}; at least {layer.bound:,} cycles, bound by {layer.limit}"
            for stage in layer.stages:
                classes = stream.of(stage)
                yield f"  {stage} in {classes[0].scope}:"
                yield from (f"    {buffer}" for buffer in stream.buffers if buffer.stage == stage)
                yield from (f"    {reason}" for name, reason in stream.units if name == stage)
                yield from (f"    {each}" for each in classes)
        for extension in PURPOSES:
            if users := self.users_of(extension):
                yield purpose_of(extension, users)

    def users_of(self, extension: str) -> tuple[str, ...]:
        """The layers whose instructions use an extension."""
        used = [frozenset(each.users_of(extension)) for each in self.streams]
        return tuple(each.name for each in self.layers if each.stream and used[each.stream - 1] & {*each.stages})


def _of_stream(stream: Explanation, number: int) -> Iterator[str]:
    chunks = sum(each.count for each in stream.classes)
    verdict = "maps" if stream.maps else f"does not map ({len(stream.refused)} refused)"
    yield f"stream {number}: {verdict}; {chunks} chunks of {len(stream.classes)} classes"
    yield from (f"  {refusal}" for refusal in stream.refusals)
    yield f"  with {', '.join(f'{depth} vectors of {scope}' for scope, depth in stream.depths)}"
    if stream.outlook is not None:
        yield from (f"  {line}" for line in stream.outlook.lines())


def _many(count: int, what: str) -> str:
    return f"{count} {what}{'' if count == 1 else 's'}"


def explain_network(network: Network, config: HardwareConfig, budget: int = 0) -> NetworkExplanation:
    """Where each layer of a network runs on a machine and why, and ``lathe.explain`` of each stream.

    ``budget`` is passed on to ``lathe.explain``, whose errors are raised.
    """
    layers: list[LayerExplained] = []
    streams: list[Explanation] = []
    for partition in network.parts(config):
        if isinstance(partition, HostPartition):
            layers += [LayerExplained(each.name, "host", 0, each.why) for each in network.reasons(partition, config)]
            continue
        program = network.lowered(partition, config)
        streams.append(explain(program.results, config, budget=budget))
        owned = _stages_of(partition, program, streams[-1])
        for layer, label in zip(partition.layers, program.names, strict=True):
            least, stages = network.bound(layer, config), owned.get(label, ())
            layers.append(LayerExplained(layer.name, "npu", len(streams), "", least.cycles, least.limit, tuple(stages)))
    return NetworkExplanation(network.model.name, config.name, tuple(layers), tuple(streams))


def _stages_of(partition: NpuPartition, program: Lowered, stream: Explanation) -> dict[str, list[str]]:
    """The stages of each layer, by label; loads of a stream's inputs belong to the first layer that reads them."""
    stages = list(dict.fromkeys(each.stage for each in stream.classes))
    labelled = list(zip(partition.layers, program.names, strict=True))
    consumers = {
        io.name: next(label for layer, label in labelled if io.tensor in layer.inputs) for io in program.inputs
    }
    inputs = layers_by_stage(stages, list(consumers)) if consumers else {}
    found: dict[str, list[str]] = {}
    for stage, label in layers_by_stage(stages, list(program.names)).items():
        source = inputs.get(stage)
        if source is not None and (stage == source or stage.startswith(f"{source}.")):
            label = consumers[source]
        found.setdefault(label, []).append(stage)
    return found
