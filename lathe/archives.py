"""Files that hold either a compiled program or a raw stream: both are .npz archives."""

import zipfile
import zlib
from pathlib import Path

import numpy as np

from lathe.configs import HardwareConfig, LatheError, load_config
from lathe.isa import Program
from lathe.sim import RawStream, read_stream

DEFAULT_MACHINE = "vta"


class ArchiveError(LatheError):
    """A file that holds neither a program nor a stream, or a machine that is not the program's."""


def load_archive(path: Path, config_name: str | None) -> tuple[Program | RawStream, HardwareConfig]:
    """The program or stream of a file, and its machine.

    A program carries its machine, and `config_name` may only repeat it; for a stream it is the machine, vta when None.
    Raises :class:`ArchiveError`, ProgramError, StreamError or ConfigError.
    """
    machine = load_config(config_name) if config_name is not None else None
    try:
        with np.load(path, allow_pickle=False) as archive:
            names = list(archive.files)
    except (
        OSError,
        zipfile.BadZipFile,
        zlib.error,
        NotImplementedError,
        ValueError,
        EOFError,
        AttributeError,
    ) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else "it is no .npz archive"
        raise ArchiveError(
            f"The file {str(path)!r} must be a program of `lathe compile` or a raw stream, and cannot be read: "
            f"{reason}. Correct the path."
        ) from None
    if "header" not in names:
        return read_stream(path), machine or load_config(DEFAULT_MACHINE)
    program = Program.load(path)
    if machine is not None and machine != program.config:
        raise ArchiveError(
            f"The machine of the program {str(path)!r} must be the one that it was compiled for, "
            f"{program.config.name!r}, not {config_name!r}. Leave out -c, or compile the program again."
        )
    return program, program.config
