"""Program cache: stores the programs built from autotuned schedules in the schedule cache, to skip compilation."""

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
    """A hash of all that a built program depends on: the key of its schedule, and its constants."""
    content = hashlib.sha256(key_of(outputs, config, budget).encode())
    for name, array in sorted((constants or {}).items()):
        values = np.ascontiguousarray(array)
        content.update(f"\0{name}\0{values.dtype.str}\0{values.shape}\0".encode() + values.tobytes())
    return f"program {content.hexdigest()}"


def read_program(cache: ScheduleCache, key: str) -> Program | None:
    """The cached program of a key; None if there is none, or it is damaged or has findings of the verifier."""
    program = cache.read_file(key, Program.load)
    return None if program is None or verify(program) else program


def write_program(cache: ScheduleCache, key: str, program: Program) -> None:
    """Store a program in the cache."""
    cache.write_file(key, program.save)
