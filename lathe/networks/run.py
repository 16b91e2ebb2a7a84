"""Execution of networks on an engine and the host CPU, with a row for each layer; and the NumPy reference."""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from os import PathLike
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

from lathe.configs.errors import shown
from lathe.configs.html_repr import repr_html
from lathe.cycle_attribution import divided_cycles, recorded_trace
from lathe.engines import CYCLE_MODEL, simulate
from lathe.frontend import reference
from lathe.frontend.onnx.reading import submodel
from lathe.frontend.onnx.run_host_nodes import run_on_host
from lathe.frontend.onnx.value_types import TensorType
from lathe.isa import Program
from lathe.networks.network import Network, program_of
from lathe.networks.partition import HostPartition, partition_model
from lathe.networks.program import NetworkProgram
from lathe.networks.program_steps import HostStep, NpuStep
from lathe.sim import Counters, InputError, Result, Trace
from lathe.sim.timing_ops import element_bytes, elements

Array = NDArray[Any]


@dataclass(frozen=True)
class LayerRow:
    """Where a layer ran and why, its cycles, the lower bound on them, its multiply-accumulates and its DRAM bytes.

    ``macs`` include padded taps, and are also counted for host nodes, whose other costs are 0.
    """

    name: str
    where: str
    cycles: int
    bound: int
    macs: int
    bytes: int
    why: str

    _repr_html_ = repr_html


@dataclass(frozen=True, eq=False, repr=False)
class NetworkResult:
    """``outputs`` by name, total cycles of all streams, a row for each layer, and the result of each stream.

    Outputs are arrays, lists of them for sequences, and None for absent optional values.
    """

    outputs: Mapping[str, Any]
    cycles: int
    layers: list[LayerRow]
    results: tuple[Result, ...]

    _repr_html_ = repr_html

    def __repr__(self) -> str:
        items = [f"{self.cycles} cycles", f"{len(self.layers)} layers", *map(str, self.outputs)]
        return f"NetworkResult({', '.join(items)})"

    @property
    def counters(self) -> Counters:
        """The counters summed over all streams."""
        return Counters.total([each.counters for each in self.results])

    def write_chrome_trace(self, path: str | PathLike[str]) -> None:
        """Write the streams' traces one after the other in Chrome's format, with the layers' labels.

        Host nodes take no time in it. Raises TraceError if no trace was recorded.
        """
        labels = [each.program.labels[label] for each in self.results for label in each.program.label_of.tolist()]
        launches = [(recorded_trace(each), each.cycles) for each in self.results]
        Trace.concatenate(launches).write_chrome_trace(path, labels.__getitem__)


RunStream: TypeAlias = Callable[[Program, Mapping[str, Array]], Result]
"""Runs a stream on arrays by the names of its program; there are none for ``timing_only``."""


def simulate_network(
    program: NetworkProgram,
    inputs: Mapping[str, Any] | None = None,
    *,
    engine: str = CYCLE_MODEL,
    timing_only: bool = False,
) -> NetworkResult:
    """Run a network; for the options see ``simulate``."""

    def run(stream: Program, given: Mapping[str, Array]) -> Result:
        return simulate(stream, given, engine=engine, timing_only=timing_only)

    return run_network(program, inputs, run, timing_only=timing_only)


def run_network(
    program: NetworkProgram, inputs: Mapping[str, Any] | None, run: RunStream, *, timing_only: bool
) -> NetworkResult:
    """Run a network's steps in order, its streams with ``run``."""
    arrays = {} if timing_only else checked(inputs, program.inputs)
    rows: list[LayerRow] = []
    results: list[Result] = []
    for step in program.steps:
        if isinstance(step, HostStep):
            rows += [LayerRow(each.name, "host", 0, 0, each.macs, 0, each.why) for each in step.nodes]
            if not timing_only:
                given = {name: arrays[name] for name in step.inputs}
                arrays |= run_on_host(step.model, given, step.outputs)
            continue
        given = {} if timing_only else {binding.name: binding.to_machine(arrays) for binding in step.inputs}
        result = run(step.program, given)
        if not timing_only:
            arrays |= {binding.tensor: binding.from_machine(result.outputs) for binding in step.outputs}
        results.append(result)
        rows += layer_rows(step, result)
    outputs = {} if timing_only else {name: arrays[name] for name in program.outputs}
    return NetworkResult(outputs, sum(each.cycles for each in results), rows, tuple(results))


def network_reference(network: Network, inputs: Mapping[str, Any]) -> dict[str, Any]:
    """The reference results of a network: quantised layers exactly in integers, other nodes on the host CPU."""
    types = network.model.types
    arrays = checked(inputs, {name: types.get(name) for name in network.model.inputs})
    for partition in partition_model(network.model, network.found, lambda _: True):
        if isinstance(partition, HostPartition):
            proto = submodel(network.model, partition.nodes, partition.inputs, partition.outputs)
            given = {name: arrays[name] for name in partition.inputs}
            arrays |= run_on_host(proto.SerializeToString(), given, partition.outputs)
            continue
        program = program_of(network, partition)
        given = {binding.name: binding.to_machine(arrays) for binding in program.inputs}
        found = reference(program.results, {**given, **program.constants})
        arrays |= {binding.tensor: binding.from_machine(found) for binding in program.outputs}
    return {name: arrays[name] for name in network.model.outputs}


def checked(inputs: Mapping[str, Any] | None, types: Mapping[str, TensorType | None]) -> dict[str, Any]:
    """The inputs as arrays; raises InputError unless names, shapes and dtypes match. Only tensors are checked."""
    if not isinstance(inputs, Mapping):
        raise InputError(f"inputs of a network must be arrays by name ({', '.join(types)}), not {shown(inputs)}.")
    if {*inputs} != {*types}:
        given = ", ".join(sorted(map(str, inputs))) or "none"
        raise InputError(f"inputs of a network must be arrays for {', '.join(sorted(types))}, not {given}.")
    found = {}
    for name, expected in types.items():
        if expected is None:
            found[name] = inputs[name]
            continue
        array = np.asarray(inputs[name])
        if array.shape != expected.shape or not _is_of(array, expected.dtype):
            raise InputError(
                f"input {name!r} of a network must be an array of shape {expected.shape} and dtype {expected.dtype}, "
                f"not of shape {array.shape} and dtype {array.dtype}."
            )
        found[name] = array
    return found


def _is_of(array: Array, dtype: str) -> bool:
    return array.dtype.kind in "OSU" if dtype == "str" else str(array.dtype) == dtype


def layer_rows(step: NpuStep, result: Result) -> list[LayerRow]:
    """The rows of a stream's layers, whose cycles add up to the stream's. The result must have a trace."""
    cycles, moved = shares_of(result, step.layer_of, len(step.layers))
    return [
        LayerRow(layer.name, "npu", cycles[number], layer.bound, layer.macs, moved[number], "")
        for number, layer in enumerate(step.layers)
    ]


def shares_of(result: Result, owner: NDArray[np.int32], count: int) -> tuple[list[int], list[int]]:
    """The cycles and DRAM bytes of a launch, attributed to ``count`` owners of its instructions."""
    moved = np.bincount(owner, _bytes_of(result.program), count).astype(np.int64)
    return divided_cycles(result, owner, count).tolist(), moved.tolist()


def _bytes_of(program: Program) -> NDArray[np.int64]:
    """The DRAM bytes that each instruction transfers."""
    columns = program.columns
    return elements(columns) * element_bytes(program.config)[columns["memory_type"]]
