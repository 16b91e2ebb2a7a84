"""Programs that have been built of found schedules, kept beside them, so that nothing is compiled again."""

import hashlib
from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lathe.autotune.schedule_cache import ScheduleCache, key_of
from lathe.configs import HardwareConfig
from lathe.frontend import Tensor
from lathe.isa import Program, verify

Constants = Mapping[str, NDArray[Any]]


def program_key(outputs: Sequence[Tensor], config: HardwareConfig, budget: int, constants: Constants | None) -> str:
    """What a built program depends on, as one number: all that its schedule does, and the constants in it."""
    content = hashlib.sha256(key_of(outputs, config, budget).encode())
    for name, array in sorted((constants or {}).items()):
        values = np.ascontiguousarray(array)
        content.update(f"\0{name}\0{values.dtype.str}\0{values.shape}\0".encode() + values.tobytes())
    return f"program {content.hexdigest()}"


def read_program(cache: ScheduleCache, key: str) -> Program | None:
    """The program that is kept under a key; None if none is, or none that is whole and that the verifier passes."""
    program = cache.read_file(key, Program.load)
    return None if program is None or verify(program) else program


def write_program(cache: ScheduleCache, key: str, program: Program) -> None:
    """Keep a program."""
    cache.write_file(key, program.save)
