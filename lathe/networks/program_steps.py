"""What a compiled network consists of: streams of instructions, and nodes of the host between them."""

from dataclasses import dataclass
from typing import TypeAlias

import numpy as np
from numpy.typing import NDArray

from lathe.isa import Program
from lathe.networks.io_bindings import IOBinding


@dataclass(frozen=True)
class LayerOfProgram:
    """A layer in a stream: its name in the model, and in the program that of the stage which makes its result.

    ``macs``: multiply-accumulates with weights, padded taps counted. ``bound``: cycles that it takes at least, alone.
    """

    name: str
    label: str
    macs: int
    bound: int


@dataclass(frozen=True, eq=False)
class NpuStep:
    """One stream of instructions; ``layer_of`` is for each of them the number of its layer."""

    program: Program
    inputs: tuple[IOBinding, ...]
    outputs: tuple[IOBinding, ...]
    layers: tuple[LayerOfProgram, ...]
    layer_of: NDArray[np.int32]


@dataclass(frozen=True)
class HostNode:
    """A node that the host computes: its name, why it is there, and its multiply-accumulates, padded taps counted."""

    name: str
    why: str
    macs: int


@dataclass(frozen=True, eq=False)
class HostStep:
    """Nodes that the host computes: a serialised ModelProto, and what is told of each."""

    model: bytes
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    nodes: tuple[HostNode, ...]


Step: TypeAlias = NpuStep | HostStep
