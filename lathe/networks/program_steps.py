"""The steps of a compiled network: instruction streams for the NPU, and nodes for the host CPU."""

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from lathe.isa import Program
from lathe.networks.io_bindings import IOBinding


@dataclass(frozen=True)
class ProgramLayer:
    """A layer of a stream: its name in the model, and as ``label`` the stage of the program that computes its result.

    ``macs``: multiply-accumulates, including padded taps. ``bound``: lower bound on the cycles of the layer alone.
    """

    name: str
    label: str
    macs: int
    bound: int


@dataclass(frozen=True, eq=False)
class NpuStep:
    """An instruction stream; ``layer_of``: the number of each instruction's layer."""

    program: Program
    inputs: tuple[IOBinding, ...]
    outputs: tuple[IOBinding, ...]
    layers: tuple[ProgramLayer, ...]
    layer_of: NDArray[np.int32]


@dataclass(frozen=True)
class HostNode:
    """A node on the host CPU: its name, the reason, and its multiply-accumulates, including padded taps."""

    name: str
    why: str
    macs: int


@dataclass(frozen=True, eq=False)
class HostStep:
    """Nodes on the host CPU, as a serialised ModelProto."""

    model: bytes
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    nodes: tuple[HostNode, ...]


Step: TypeAlias = NpuStep | HostStep
