"""A network compiled for a machine: instruction streams for the NPU, and steps of the host CPU."""

from collections.abc import Mapping
from dataclasses import dataclass
from os import PathLike
from typing import Any

from lathe.configs import HardwareConfig
from lathe.configs.html_repr import repr_html
from lathe.frontend.onnx.value_types import TensorType
from lathe.isa import Program
from lathe.networks.files import read_network, write_network
from lathe.networks.program_steps import NpuStep, Step


@dataclass(frozen=True, eq=False, repr=False)
class NetworkProgram:
    """The result of ``network.build``: steps in execution order, and the types of the model's inputs and outputs."""

    name: str
    config: HardwareConfig
    steps: tuple[Step, ...]
    inputs: Mapping[str, TensorType | None]
    outputs: Mapping[str, TensorType | None]

    _repr_html_ = repr_html

    def __repr__(self) -> str:
        items = [self.name, self.config.name, f"{len(self.parts)} streams", f"{len(self.steps)} steps"]
        return f"NetworkProgram({', '.join(items)})"

    @property
    def parts(self) -> tuple[Program, ...]:
        """The instruction streams, for ``verify``, ``disassemble`` and every engine."""
        return tuple(step.program for step in self.steps if isinstance(step, NpuStep))

    def save(self, path: str | PathLike[str]) -> None:
        """Write the network to a file, atomically; :meth:`load` reads it."""
        header = {
            "name": self.name,
            "config": self.config.to_dict(),
            "inputs": {name: each and [each.dtype, each.shape] for name, each in self.inputs.items()},
            "outputs": {name: each and [each.dtype, each.shape] for name, each in self.outputs.items()},
        }
        write_network(path, header, self.steps)

    @classmethod
    def load(cls, path: str | PathLike[str]) -> "NetworkProgram":
        """Read a network from a file that :meth:`save` wrote.

        Raises :class:`ProgramError` for a file that is truncated, foreign or of another version.
        """
        return read_network(path, cls._of_file)

    @classmethod
    def _of_file(cls, header: dict[str, Any], steps: tuple[Step, ...]) -> "NetworkProgram":
        return cls(
            header["name"],
            HardwareConfig.from_dict(header["config"]),
            steps,
            {name: _type(each) for name, each in header["inputs"].items()},
            {name: _type(each) for name, each in header["outputs"].items()},
        )


def _type(plain: list[Any] | None) -> TensorType | None:
    return None if plain is None else TensorType(plain[0], tuple(plain[1]))
