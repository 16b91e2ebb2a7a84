"""``tile_for``: tiles are chosen for a derated machine."""

from lathe.configs.errors import shown
from lathe.configs.integers import integer
from lathe.scheduler.errors import ScheduleError
from lathe.scheduler.schedule_ir.derating import MEMORIES, Derating
from lathe.scheduler.schedule_ir.edit import Edit

MOST = 1 << 16


def tile_for(schedule: Edit, *, scratchpads: int = 1, memory: str = "") -> None:
    """Let ``build`` choose tiles that the user has left open for a derated machine.

    ``scratchpads=2``: tiles that fit into half of each scratchpad. ``memory="slow"``: tiles for a bus of 32 bits with a
    latency of 128 cycles and one outstanding read; ``"quick"``: for one of 256 bits with 8 cycles and 8 reads. Before,
    for a matmul on a machine with 128 vectors of 64 bytes in ``inp``::

        for i0o in 0..1:
          for i1o in 0..4:
            buffer sums in acc: [128*i0o + 128, 64*i1o + 64]

    After ``s.tile_for(scratchpads=2)``::

        for i0o in 0..2:
          for i1o in 0..4:
            buffer sums in acc: [64*i0o + 64, 64*i1o + 64]

    The compiler's cost model is an estimate: tiles for a smaller machine may be faster, and the free capacity is used
    for second buffers. If nothing fits the derated machine, tiles are chosen for the full one. A second call replaces
    the first. Raises ScheduleError for a ``scratchpads`` that is no integer from 1 on, and for other memories.
    """
    divisor = integer(scratchpads)
    if divisor is None or not 1 <= divisor <= MOST:
        raise ScheduleError(
            f"scratchpads of tile_for must be an integer from 1 to {MOST}, the divisor of every scratchpad's depth, "
            f"not {shown(scratchpads)}.",
            kind="argument",
        )
    if memory and (not isinstance(memory, str) or memory not in MEMORIES):
        raise ScheduleError(
            f"memory of tile_for must be one of {', '.join(MEMORIES)}, or left out for the machine's own, not "
            f"{shown(memory)}.",
            kind="argument",
        )
    schedule.update(derating=Derating(divisor, memory or ""))
