"""What each layer of a point cost: columns of plain values, as the store keeps them."""

from collections.abc import Mapping, Sequence
from typing import Any, TypeAlias

from lathe.networks.program import NetworkProgram
from lathe.networks.program_steps import NpuStep
from lathe.networks.run import layer_rows, shares_of
from lathe.sim import Result
from lathe.sweeps.workload_types import Compiled

Layers: TypeAlias = Mapping[str, list[Any]]
"""Columns of one length: "layer", "cycles", "bytes", and of networks "bound" and "macs"."""


def layers_of(program: Compiled, results: Sequence[Result]) -> Layers:
    """The layers that the machine computes, in their order; their cycles add up to those of the point.

    ``results`` of a network are those of its streams, each with its trace. What the host computes is not there. The
    layers of a single program are its labels, of which nobody knows the bound alone.
    """
    if not isinstance(program, NetworkProgram):
        (result,) = results
        cycles, moved = shares_of(result, program.label_of, len(program.labels))
        return {"layer": list(program.labels), "cycles": cycles, "bytes": moved}
    steps = [step for step in program.steps if isinstance(step, NpuStep)]
    rows = [row for step, result in zip(steps, results, strict=True) for row in layer_rows(step, result)]
    names = {"layer": "name", "cycles": "cycles", "bytes": "bytes", "bound": "bound", "macs": "macs"}
    return {column: [getattr(row, name) for row in rows] for column, name in names.items()}
