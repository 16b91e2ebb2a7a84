"""The event engine: advances the units of one launch from memory grant to memory grant.

Everything but the memory port is a recurrence: when a unit's inputs are known, so are its cycles, however far ahead.
The units compete only at the port, so the port's grants are processed in order of time, and between two of them each
unit advances as far as it can. Whatever is still unknown then waits for a grant that has not been processed, and is
therefore later than the earliest known request, which can safely be granted. This is conservative discrete-event
simulation (Chandy and Misra, 1979). The work is per instruction and per burst; no loop runs over cycles.
"""

from collections.abc import Sequence

from lathe.configs import HardwareConfig
from lathe.configs.encoding import INSTRUCTION_BYTES
from lathe.configs.memory import END, STAGES, WRITE_BACK
from lathe.sim.bus_fault_injection import ErrorResponse, FaultyMemory, Watch
from lathe.sim.compute import ComputeUnit
from lathe.sim.fetch import FetchUnit
from lathe.sim.load import LoadUnit
from lathe.sim.memory_port import FETCH, LOAD, MASTERS, NEVER, Port
from lathe.sim.read_dma import Reader
from lathe.sim.store import StoreUnit
from lathe.sim.timeline import COMPUTE as COMPUTE_UNIT
from lathe.sim.timeline import FETCH as FETCH_UNIT
from lathe.sim.timeline import LOAD as LOAD_UNIT
from lathe.sim.timeline import STORE as STORE_UNIT
from lathe.sim.timeline import Timeline
from lathe.sim.timing_ops import Commands

_ROUND_ROBIN = tuple(tuple((master + n) % MASTERS for n in range(1, MASTERS + 1)) for master in range(MASTERS))
"""For each master, all masters in the order of priority after it was granted, itself last."""


class Engine:
    """One launch: `commands` read from byte address `insn_addr`, with `tokens` in the four queues.

    ``illegal`` is the first instruction that fetch refuses, -1 for none, and ``faults`` a memory that responds with
    errors. Both are only recorded: the engine's cycles after a fault are not those of the machine.

    After ``run``, ``timeline`` holds all cycles and ``port`` the bursts and beats; ``complete`` is true if every
    instruction was dispatched and done and a FINISH executed.
    """

    def __init__(
        self,
        cfg: HardwareConfig,
        commands: Commands,
        insn_addr: int,
        tokens: Sequence[int],
        *,
        illegal: int = -1,
        faults: FaultyMemory | None = None,
    ) -> None:
        assert insn_addr % INSTRUCTION_BYTES == 0, f"instruction stream at {insn_addr:#x}, not at a multiple of 16"
        memory, timing = cfg.memory, cfg.timing
        shift = cfg.bus_bytes.bit_length() - 1
        burst, fifo = memory.burst_beats, timing.dma_fifo_beats
        pipeline = max(timing.gemm_pipeline, timing.alu_pipeline) + STAGES
        self.timeline = timeline = Timeline(commands, tokens)
        self.port = Port(memory)
        self.fetch = FetchUnit(
            timeline, insn_addr, shift, burst, timing.fetch_fifo_beats, timing.command_queue_depth, illegal
        )
        self.load = LoadUnit(timeline, Reader(shift, burst, fifo), timing.dma_pending, timing.write_latency)
        self.compute = ComputeUnit(timeline, Reader(shift, burst, fifo), pipeline, timing.write_latency + WRITE_BACK)
        stream = (insn_addr, self.fetch.stream_end)
        self.store = StoreUnit(timeline, shift, burst, fifo, timing.dma_pending, timing.response_latency, stream)
        self.watch: Watch | None = None
        if faults is not None:
            self._watch(faults, shift)

    def _watch(self, faults: FaultyMemory, bus_shift: int) -> None:
        """Observe all bursts."""
        self.watch = watch = Watch(faults, bus_shift)

        def end_of(instruction: int | None) -> int:
            return self.fetch.stream_end if instruction is None else self.timeline.commands[instruction].transfer.end

        self.fetch.watch = self.load.reader.watch = self.compute.reader.watch = watch.reads(self.port, end_of)
        self.store.watch = watch.writes(self.store.response_latency, end_of)

    @property
    def bus_errors(self) -> list[ErrorResponse]:
        """The first error response of the memory to a read, and to a write."""
        return [] if self.watch is None else list(self.watch.first.values())

    @property
    def complete(self) -> bool:
        """Whether the launch ended normally."""
        return self.compute.finished and min(self.timeline.end, default=-1) >= 0

    @property
    def cycles(self) -> int:
        """Cycles of a complete launch: that in which the machine signals that it is done."""
        return max(self.timeline.end) + 1 + END

    def run(self) -> None:
        """Run until no progress is possible."""
        port, fetch, load, compute, store = self.port, self.fetch, self.load, self.compute, self.store
        load_reader, compute_reader = load.reader, compute.reader
        units = (load.advance, compute.advance, store.advance, fetch.advance)
        while True:
            requests = (fetch.request, load_reader.request, compute_reader.request)
            grant = min(requests)
            if grant < port.slot:
                grant = port.slot
            if store.request < grant:
                # If store only packs without starting an instruction, no other unit can advance.
                changed = store.send(port, grant) or (store.packing >= 0 and store.advance())
                at = STORE_UNIT
            elif grant >= NEVER:
                break
            else:
                # The master that the round-robin arbiter grants in this cycle; there is one.
                for master in _ROUND_ROBIN[port.last_master]:
                    if requests[master] <= grant:
                        break
                if master == FETCH:
                    fetch.receive(port)
                    changed, at = True, FETCH_UNIT
                else:
                    # A write accepted in the cycle of a read is served after it, hence the additional cycle.
                    others = store.request + 1
                    for other in _ROUND_ROBIN[master][:-1]:
                        if requests[other] < others:
                            others = requests[other]
                    if master == LOAD:
                        changed = load_reader.run(port, others)
                        at = LOAD_UNIT
                        if changed:
                            load.transferred()
                    else:
                        changed = compute_reader.run(port, others)
                        at = COMPUTE_UNIT
                        if changed:
                            compute.transferred()
                port.last_master = master
            quiet = 0 if changed else len(units)
            while quiet < len(units):
                quiet = 1 if units[at]() else quiet + 1  # a unit that has advanced cannot advance further by itself
                at = (at + 1) % len(units)
