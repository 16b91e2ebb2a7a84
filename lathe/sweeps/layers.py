"""Per-layer results of a point, as columns of plain values for the store."""

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
    """The layers that the machine, not the host CPU, computes, in order; their cycles add up to the point's.

    ``results`` of a network are those of its streams, each with its trace. The layers of a single program are its
    labels, which have no "bound" and "macs".
    """
    if not isinstance(program, NetworkProgram):
        (result,) = results
        cycles, moved = shares_of(result, program.label_of, len(program.labels))
        return {"layer": list(program.labels), "cycles": cycles, "bytes": moved}
    steps = [step for step in program.steps if isinstance(step, NpuStep)]
    rows = [row for step, result in zip(steps, results, strict=True) for row in layer_rows(step, result)]
    names = {"layer": "name", "cycles": "cycles", "bytes": "bytes", "bound": "bound", "macs": "macs"}
    return {column: [getattr(row, name) for row in rows] for column, name in names.items()}
