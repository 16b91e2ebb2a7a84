"""``tile_for``: tiles that nobody has made are chosen as for a machine with less."""

from lathe.configs.errors import shown
from lathe.configs.integers import integer
from lathe.scheduler.errors import ScheduleError
from lathe.scheduler.state.edit import Edit
from lathe.scheduler.state.less import Less

MOST = 1 << 16


def tile_for(
    schedule: Edit, *, scratchpads: int = 1, bus: int = 1, latency: int = 1, outstanding_reads: int = 1
) -> None:
    """Let ``build`` choose the tiles that are left open as for a machine with so many times less of a resource.

    ``s.tile_for(scratchpads=2)``: tiles that fit into half of each scratchpad; ``bus=4``: those that would be quickest
    with a quarter of the bits; ``latency=2``: with twice the cycles until memory answers; ``outstanding_reads=2``: with
    half the reads under way. Before, of a product on a machine whose scratchpads hold 32 rows of ``A``::

        for io in 0..2:
          buffer A.inp in inp: [32*io + 32, 64]

    After ``s.tile_for(scratchpads=2)``::

        for io in 0..4:
          buffer A.inp in inp: [16*io + 16, 64]

    The compiler's model estimates: what it chooses for less may be quicker, and the room that is left is used for
    second buffers. Where nothing fits into less, tiles are those for all there is. A second call replaces the first.
    Raises ScheduleError for anything but whole numbers from 1 on; ``build`` raises ConfigError for a bus that no
    machine has.
    """
    given = {"scratchpads": scratchpads, "bus": bus, "latency": latency, "outstanding_reads": outstanding_reads}
    numbers = {}
    for name, value in given.items():
        number = integer(value)
        if number is None or not 1 <= number <= MOST:
            raise ScheduleError(
                f"{name} of tile_for must be a whole number from 1 to {MOST}, how many times less there is, not "
                f"{shown(value)}.",
                kind="argument",
            )
        numbers[name] = number
    schedule.amend(tiled_for=Less(**numbers))
