"""Loads .npz archives that hold either a compiled program or a raw instruction stream."""

from pathlib import Path

from lathe.configs import HardwareConfig, LatheError, load_config
from lathe.configs.archives import UnreadableArchiveError, read_arrays
from lathe.isa import Program
from lathe.sim import RawStream
from lathe.sim.stream import PROGRAM_KEY, stream_for

DEFAULT_MACHINE = "vta"


class ArchiveError(LatheError):
    """A file that holds neither a program nor a stream, or a machine other than the program's."""


def load_archive(path: Path, config_name: str | None) -> tuple[Program | RawStream, HardwareConfig]:
    """Load a program or raw stream from a file, with the machine to run it on.

    A program is stored with its machine; `config_name` must name the same one or be None. A stream runs on the machine
    `config_name`, vta when None. Raises :class:`ArchiveError`, ProgramError, StreamError or ConfigError.
    """
    machine = load_config(config_name) if config_name is not None else None
    try:
        is_program = bool(read_arrays(path, (PROGRAM_KEY,)))
    except UnreadableArchiveError as error:
        raise ArchiveError(
            f"Cannot load {str(path)!r} as a program or a raw stream: {error}. Name a file that `lathe compile` wrote, "
            "or the .npz file of a stream."
        ) from None
    if not is_program:
        machine = machine or load_config(DEFAULT_MACHINE)
        return stream_for(machine, path), machine
    program = Program.load(path)
    if machine is not None and machine != program.config:
        raise ArchiveError(
            f"The machine of the program {str(path)!r} must be the one that it was compiled for, "
            f"{program.config.name!r}, not {config_name!r}. Leave out -c, or compile the program again."
        )
    return program, program.config
