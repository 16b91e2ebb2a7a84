"""Parameters of the external memory, and the timing constants of the machine."""

from dataclasses import dataclass

from lathe.configs.html_repr import repr_html
from lathe.configs.integers import normalise_integers

PAGE_BYTES = 4096
"""AXI4's 4 KiB boundary, which no burst crosses; also the page size of sparse memory images."""

# Pipeline registers of every machine, in cycles, for simulator and RTL; docs/timing-model.md shows where each counts.
# The RTL's modules instantiate these registers: changing a number here alone makes the simulator disagree with the RTL.
DECODE_STAGES = 3
"""Decoding stages of a command between the head of its queue and the unit."""
DECODE = 1 + DECODE_STAGES
"""Cycles that a command spends between its queue's memory and the unit: a register, and the decoding stages."""
CUT = 2
"""Cycles until the first burst of a transfer, or of the stream, is cut and its space in the FIFO reserved."""
STAGES = 3
"""Stages of the compute pipeline beyond ``gemm_pipeline``: after the memories are read, and before the write."""
RESCALE_STAGES = 6
"""Stages by which the result of a RESCALE is written later than that of an ALU instruction."""
LOOKUP_STAGES = 2
"""Further such stages on machines with look-up tables."""
WRITE_BACK = 1
"""Cycles between the last write cycle of a LOAD in compute and its end, beyond ``write_latency``."""
PACK = 3
"""Cycles between packing a beat and its arrival in store's FIFO."""
END = 1
"""Cycles in which control detects that all units are idle."""


@dataclass(frozen=True, slots=True)
class MemoryConfig:
    """One AXI4 port and the DRAM model that serves it.

    ``bus_bits``: width of a beat. ``latency``: cycles from a burst's acceptance to its service; 0 is the ideal memory
    of published figures. ``burst_beats``: maximum beats of a burst (AXI4 allows 256; bursts never cross 4 KiB).
    ``outstanding_reads``: maximum read bursts in flight, of all masters together. ``cycles_per_beat``: cycles that the
    DRAM takes per beat. ``shared_bandwidth``: reads and writes alternate on one server instead of having one each.
    """

    bus_bits: int = 64
    latency: int = 32
    burst_beats: int = 256
    outstanding_reads: int = 8
    cycles_per_beat: int = 1
    shared_bandwidth: bool = True

    _repr_html_ = repr_html

    def __post_init__(self) -> None:
        normalise_integers(self)


@dataclass(frozen=True, slots=True)
class TimingConfig:
    """Depths of queues and pipelines, defined once for simulator and RTL.

    ``command_queue_depth``: instructions by which fetch may run ahead of a unit (VTA's default is 512).
    ``gemm_pipeline`` and ``alu_pipeline``: cycles from the issue of a micro-op to the end of its accumulator write,
    without ``STAGES``. ``dma_fifo_beats``: data FIFO of each read and write master but fetch; ``fetch_fifo_beats``:
    fetch's. A master requests a burst only when its FIFO has space for all of it, so both hold at least one burst.
    ``write_latency``: cycles from the write of a load's last vector to its tokens. ``response_latency``: cycles from
    the end of a write burst's service to the store unit's receipt of the response. ``dma_pending``: loads (and stores)
    that one unit may have started and not finished. docs/timing-model.md describes the effect of each on time.
    """

    command_queue_depth: int = 512
    gemm_pipeline: int = 6
    alu_pipeline: int = 6
    dma_fifo_beats: int = 512
    fetch_fifo_beats: int = 256
    write_latency: int = 1
    response_latency: int = 1
    dma_pending: int = 4

    _repr_html_ = repr_html

    def __post_init__(self) -> None:
        normalise_integers(self)
