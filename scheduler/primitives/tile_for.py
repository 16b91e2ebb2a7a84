"""``tile_for``: tiles that nobody has made are chosen as for a machine with less."""

from lathe.configs.errors import shown
from lathe.configs.integers import integer
from lathe.scheduler.errors import ScheduleError
from lathe.scheduler.schedule_ir.derating import MEMORIES, Derating
from lathe.scheduler.schedule_ir.edit import Edit

MOST = 1 << 16


def tile_for(schedule: Edit, *, scratchpads: int = 1, memory: str = "") -> None:
    """Let ``build`` choose the tiles that are left open as for a machine with less.

    ``scratchpads=2``: tiles that fit into half of each scratchpad. ``memory="slow"``: those that would be quickest
    behind a bus of 32 bits, with a latency of 128 cycles and one read under way; ``"quick"``: behind one of 256 bits,
    with 8 cycles and 8 reads. Before, of a product on a machine with 128 elements in ``inp`` that are 64 bytes long::

        for i0o in 0..1:
          for i1o in 0..4:
            buffer sums in acc: [128*i0o + 128, 64*i1o + 64]

    After ``s.tile_for(scratchpads=2)``::

        for i0o in 0..2:
          for i1o in 0..4:
            buffer sums in acc: [64*i0o + 64, 64*i1o + 64]

    The compiler's model estimates: what it chooses for less may be quicker, and the room that is left is used for
    second buffers. Where nothing fits into less, tiles are those for all there is. A second call replaces the first.
    Raises ScheduleError for parts that are no whole number from 1 on, and memories that are none of these.
    """
    parts = integer(scratchpads)
    if parts is None or not 1 <= parts <= MOST:
        raise ScheduleError(
            f"scratchpads of tile_for must be a whole number from 1 to {MOST}, how many times less there is, not "
            f"{shown(scratchpads)}.",
            kind="argument",
        )
    if memory and (not isinstance(memory, str) or memory not in MEMORIES):
        raise ScheduleError(
            f"memory of tile_for must be one of {', '.join(MEMORIES)}, or be left out for the machine's own, not "
            f"{shown(memory)}.",
            kind="argument",
        )
    schedule.update(derating=Derating(parts, memory or ""))
