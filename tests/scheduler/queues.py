"""A tiled matmul whose loads can overlap with its GEMMs, and their overlap in a trace."""

import numpy as np
from nests import two_stages
from small_machine import run

from lathe.configs import HardwareConfig, load_config
from lathe.frontend import Tensor, compute, placeholder, reduce_axis, sum
from lathe.isa import Gemm, Load
from lathe.scheduler import Schedule, create_schedule
from lathe.scheduler.schedule_ir.loops import LoopAxis
from lathe.sim import Result, simulate_program

TINY = load_config("tiny")


def stage_in_tiles() -> tuple[Tensor, Tensor, Schedule]:
    """Two stages; the first is computed in acc, in the tile loop of the second."""
    B, C, s = two_stages(64)
    s[B].set_scope("acc")
    outer, _ = s[C].split("i", 16)
    s[B].compute_at(s[C], outer)
    return B, C, s


class Tiles:
    """A matmul of ``rows`` × 64 over 32, in tiles of 8 rows and ``parts`` reduction tiles, with A loaded for each."""

    def __init__(self, rows: int = 64, *, parts: int = 1) -> None:
        self.A = placeholder((rows, 32), "int8", "A")
        self.B = placeholder((64, 32), "int8", "B")
        k = reduce_axis(32, "k")
        self.C: Tensor = compute(
            (rows, 64), lambda i, j: sum(self.A[i, k].astype("int32") * self.B[j, k].astype("int32"), axis=k), "C"
        )
        self.D: Tensor = compute(self.C.shape, lambda i, j: (self.C[i, j] >> 6).astype("int8"), "D")
        s = self.schedule = create_schedule(self.D)
        self.made = s.cache_write(self.D, "acc")
        self.rows = s.cache_read(self.A, "inp", [self.C])
        self.columns = s.cache_read(self.B, "wgt", [self.C])
        s[self.C].set_scope("acc")
        self.loop, _ = s[self.D].split(s[self.D].axis[0], factor=8)
        for tensor in (self.made, self.C):
            s[tensor].compute_at(s[self.D], self.loop)
        self.part: LoopAxis | None = None
        if parts > 1:
            self.part, inner = s[self.C].split("k", factor=32 // parts)
            s[self.C].reorder(self.part, *s[self.C].axis, inner)
            s[self.rows].compute_at(s[self.C], self.part)
        else:
            s[self.rows].compute_at(s[self.D], self.loop)

    def halves(self) -> LoopAxis:
        """Compute the columns of each tile in two halves; returns the loop over these, inside that over tiles."""
        s = self.schedule
        _, rows, columns = s[self.D].leaf_axis
        outer, inner = s[self.D].split(columns, factor=32)
        s[self.D].reorder(self.loop, outer, rows, inner)
        for tensor in (self.made, self.C, *([] if self.part is not None else [self.rows])):
            s[tensor].compute_at(s[self.D], outer)
        return outer

    def alone(self) -> None:
        """Disable double buffering."""
        for tensor in (self.rows, self.C, self.made):
            self.schedule[tensor].double_buffer(1)

    def inputs(self) -> dict[str, np.ndarray]:
        generator = np.random.default_rng(0)
        return {each.name: generator.integers(-128, 128, each.shape, np.int8) for each in (self.A, self.B)}


def ran(tiles: Tiles) -> Result:
    """Run on the small machine; fails unless outputs equal NumPy's."""
    program = run(tiles.schedule, TINY, tiles.inputs())
    return simulate_program(program, tiles.inputs())


def overlap(result: Result) -> int:
    """Cycles in which both a load and a GEMM are active."""
    trace = result.trace
    assert trace is not None
    busy = np.zeros((2, result.cycles + 1), np.bool_)
    for unit, instruction, start, end in zip(trace.unit, trace.instruction, trace.start, trace.end, strict=True):
        each = trace.stream[instruction]
        if unit == 0 and isinstance(each, Load):
            busy[0, start:end] = True
        elif unit == 1 and isinstance(each, Gemm) and not each.reset:
            busy[1, start:end] = True
    return int((busy[0] & busy[1]).sum())


def machine(**changes: int) -> HardwareConfig:
    """The small machine with changed parameters."""
    return TINY.with_(**changes)


__all__ = ["TINY", "Schedule", "Tiles", "machine", "overlap"]
