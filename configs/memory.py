"""The memory outside the accelerator, and the constants of its time."""

from dataclasses import dataclass

from lathe.configs.html_repr import repr_html
from lathe.configs.integers import hold_plain_integers

PAGE_BYTES = 4096
"""AXI4's 4 KiB, whose multiples no burst crosses; images of sparse memories come in pages of as many bytes."""

# Registers that every machine has, in cycles, for simulator and RTL; docs/timing-model.md says where each counts. The
# registers themselves stand in the RTL's modules: another number here is another machine there.
DECODE_STAGES = 3
"""Stages in which a command is decoded between its queue's head and the unit."""
DECODE = 1 + DECODE_STAGES
"""Cycles that a command spends behind its queue's memory and in these stages."""
CUT = 2
"""Cycles until the first burst of a transfer, or of the stream, is cut and its room in the FIFO set aside."""
STAGES = 3
"""Stages of the compute pipeline beyond ``gemm_pipeline``: behind the memories that are read, and before the write."""
RESCALE_STAGES = 6
"""Stages by which the result of a RESCALE is written later than an ALU's."""
LOOKUP_STAGES = 2
"""Stages that come to those on machines with tables."""
WRITE_BACK = 1
"""Cycles between the last step of a LOAD in compute and its end, beyond ``write_latency``."""
PACK = 3
"""Cycles between the step that packs a beat and its place in store's FIFO."""
END = 1
"""Cycles in which control finds that all units rest."""


@dataclass(frozen=True, slots=True)
class MemoryConfig:
    """One AXI4 port and the DRAM model behind it.

    ``bus_bits``: width of a beat. ``latency``: cycles from a burst's acceptance to its service; 0 is the ideal memory
    that published figures use. ``burst_beats``: most beats of one burst (AXI4 allows 256; bursts never cross 4 KiB).
    ``outstanding_reads``: read bursts in flight over all masters. ``cycles_per_beat``: the DRAM's rate.
    ``shared_bandwidth``: reads and writes take turns on one server instead of having one each.
    """

    bus_bits: int = 64
    latency: int = 32
    burst_beats: int = 256
    outstanding_reads: int = 8
    cycles_per_beat: int = 1
    shared_bandwidth: bool = True

    _repr_html_ = repr_html

    def __post_init__(self) -> None:
        hold_plain_integers(self)


@dataclass(frozen=True, slots=True)
class TimingConfig:
    """Depths of queues and pipelines, stated once for simulator and RTL.

    ``command_queue_depth``: instructions that fetch may be ahead of a unit (VTA's default is 512). ``gemm_pipeline``
    and ``alu_pipeline``: cycles from the issue of a micro-op to the end of its accumulator write, ``STAGES`` aside.
    ``dma_fifo_beats``: data FIFO of each read and write master but fetch; ``fetch_fifo_beats``: fetch's. A master asks
    for a burst only when its FIFO has room for all of it, so both hold at least one burst. ``write_latency``: cycles
    from the write of a load's last element to its tokens. ``response_latency``: cycles from the end of a write burst's
    service to the store unit's receipt of the response. ``dma_pending``: loads (and stores) that one unit may have
    started and not finished. docs/timing-model.md says what each does to time.
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
        hold_plain_integers(self)
