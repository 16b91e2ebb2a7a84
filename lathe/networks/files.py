"""Files of compiled networks: an .npz archive that contains each stream as a program file."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import astuple
from os import PathLike
from pathlib import Path
from typing import Any, TypeVar

import numpy as np
from numpy.typing import NDArray

from lathe.configs.archive_headers import ArchiveHeader, OtherVersionError, load_from_bytes, save_to_bytes
from lathe.configs.archives import UnreadableArchiveError, read_arrays
from lathe.configs.atomic import atomic_write
from lathe.frontend.onnx.quant_graph import FloatSums
from lathe.isa import Program, ProgramError
from lathe.networks.im2col import Windows
from lathe.networks.io_bindings import IOBinding
from lathe.networks.program_steps import HostNode, HostStep, NpuStep, ProgramLayer, Step

FORM = ArchiveHeader("network", "lathe network", 6)

Made = TypeVar("Made")


def write_network(path: str | PathLike[str], header: Mapping[str, Any], steps: Sequence[Step]) -> None:
    """Write a network's header and steps to a file, atomically."""
    arrays: dict[str, Any] = {}
    plain: list[dict[str, Any]] = []
    for number, step in enumerate(steps):
        if isinstance(step, HostStep):
            arrays[f"model{number}"] = np.frombuffer(step.model, np.uint8)
            nodes = [[*astuple(each)] for each in step.nodes]
            plain.append({"inputs": step.inputs, "outputs": step.outputs, "nodes": nodes})
            continue
        arrays[f"program{number}"] = np.frombuffer(save_to_bytes(step.program.save), np.uint8)
        arrays[f"layers{number}"] = step.layer_of
        plain.append(
            {
                "inputs": [_plain(binding) for binding in step.inputs],
                "outputs": [_plain(binding) for binding in step.outputs],
                "layers": [[each.name, each.label, each.macs, each.bound] for each in step.layers],
            }
        )
    with atomic_write(path) as file:
        np.savez(file, **FORM.with_header({**header, "steps": plain}, arrays))


def holds_network(path: str | PathLike[str]) -> bool:
    """Whether a file is an archive of a network, without checks of its content."""
    return FORM.matches(path)


def read_network(path: str | PathLike[str], made_of: Callable[[dict[str, Any], tuple[Step, ...]], Made]) -> Made:
    """Read a network's header and steps from a file, and pass them to ``made_of``.

    Raises :class:`ProgramError` for a file that is truncated, foreign or of another version.
    """
    source = Path(path)
    foreign = ProgramError(
        f"The file {source} is not a network that Lathe has saved, or it is truncated. Compile it again."
    )
    try:
        arrays = read_arrays(source)
        header = FORM.header_of(arrays)
    except UnreadableArchiveError as error:
        if error.no_file:
            raise ProgramError(
                f"Cannot read network file {source}: {error}. Correct the path or its permissions."
            ) from None
        raise foreign from None
    except OtherVersionError as error:
        raise ProgramError(
            f"The version of network file {source} must be {FORM.version}, not {error.version!r}. "
            "Compile the network again with this version of Lathe."
        ) from None
    try:
        return made_of(header, tuple(_step(each, arrays, number) for number, each in enumerate(header["steps"])))
    except (KeyError, ValueError, TypeError, AttributeError, IndexError):
        raise foreign from None


def _plain(binding: IOBinding) -> list[Any]:
    return [*astuple(binding)]


def _binding(plain: list[Any]) -> IOBinding:
    tensor, name, dtype, shape, width, channels, more, zero_point, extra, digits, axes, windows, numbers, single = plain
    im2col = None
    if windows is not None:
        kernel, strides, dilations, pads, pad_value = windows
        im2col = Windows(tuple(kernel), tuple(strides), tuple(dilations), tuple(pads), pad_value)
    channel_positions = None if channels is None else tuple(channels)
    return IOBinding(
        tensor,
        name,
        dtype,
        tuple(shape),
        width,
        channel_positions,
        tuple(more),
        zero_point,
        extra,
        tuple(digits),
        tuple(axes),
        im2col,
        None if numbers is None else FloatSums(tuple(numbers[0]), tuple(numbers[1]), numbers[2]),
        single,
    )


def _step(plain: dict[str, Any], arrays: Mapping[str, NDArray[Any]], number: int) -> Step:
    if "nodes" in plain:
        nodes = tuple(HostNode(*each) for each in plain["nodes"])
        return HostStep(arrays[f"model{number}"].tobytes(), tuple(plain["inputs"]), tuple(plain["outputs"]), nodes)
    return NpuStep(
        load_from_bytes(arrays[f"program{number}"].tobytes(), Program.load),
        tuple(map(_binding, plain["inputs"])),
        tuple(map(_binding, plain["outputs"])),
        tuple(ProgramLayer(*each) for each in plain["layers"]),
        arrays[f"layers{number}"],
    )
