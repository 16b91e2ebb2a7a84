"""Protocol checker of the memory port: the rules of AXI4 and those that the machine guarantees beyond them.

It checks both sides in every cycle: the machine, and the memory model, which may be wrong, too. `protocol.h` does the
same for compiled machines, with the numbers of these rules.
"""

from collections import deque
from enum import IntEnum

from lathe.configs import MemoryConfig
from lathe.configs.memory import PAGE_BYTES
from lathe.rtl.derived_widths import log2
from lathe.rtl.engines.launch import BrokenRunError
from lathe.rtl.ports import INCREMENTING, WRITE_ID

# ARVALID or AWVALID, its READY, address, length (beats less one), size, burst, id.
Address = tuple[int, int, int, int, int, int, int]
# WVALID, WREADY, data, strobes, last.
WriteBeat = tuple[int, int, int, int, int]
# RVALID, RREADY, id, data, last, response.
ReadBeat = tuple[int, int, int, int, int, int]
# BVALID, BREADY, id, response.
Response = tuple[int, int, int, int]


class Rule(IntEnum):
    """A rule; its name begins with its channel."""

    AR_VALID = 1
    AR_STABLE = 2
    AR_KIND = 3
    AR_PAGE = 4
    AR_LENGTH = 5
    AR_ID = 6
    AR_OUTSTANDING = 7
    AW_VALID = 8
    AW_STABLE = 9
    AW_KIND = 10
    AW_PAGE = 11
    AW_LENGTH = 12
    AW_ID = 13
    W_VALID = 14
    W_STABLE = 15
    W_ADDRESS = 16
    W_LAST = 17
    R_VALID = 18
    R_STABLE = 19
    R_BURST = 20
    R_LAST = 21
    B_VALID = 22
    B_STABLE = 23
    B_BURST = 24
    B_ID = 25
    R_END = 26
    B_END = 27

    @property
    def channel(self) -> str:
        """AR, R, AW, W or B."""
        return self.name.partition("_")[0]

    @property
    def side(self) -> str:
        """The side that has to obey it."""
        memory = self.channel in "RB" and self not in (Rule.R_END, Rule.B_END)
        return "memory" if memory else "machine"

    @property
    def text(self) -> str:
        """The rule in words."""
        about = _CHANNEL_RULES.get(self)
        return about if about is not None else _COMMON_RULES[self.name.partition("_")[2]].format(self.channel)


_COMMON_RULES = {
    "VALID": "{0}VALID must stay until {0}READY",
    "STABLE": "the signals with {0}VALID must be stable until {0}READY",
    "KIND": "a burst must be incrementing, of whole beats of the bus",
    "PAGE": "a burst must stay within 4 KiB",
    "LENGTH": "a burst must have at most memory.burst_beats beats",
}
_CHANNEL_RULES = {
    Rule.AR_ID: "the id must be 0 for fetch, 1 for load or 2 for compute",
    Rule.AR_OUTSTANDING: "at most memory.outstanding_reads bursts must be in flight",
    Rule.AW_ID: f"the id must be {WRITE_ID}",
    Rule.W_ADDRESS: "data must follow their burst's address",
    Rule.W_LAST: "WLAST must be set at a burst's last beat, and at no other",
    Rule.R_BURST: "a beat must belong to a burst in flight, by its id",
    Rule.R_LAST: "RLAST must be set at a burst's last beat, and at no other",
    Rule.B_BURST: "each burst must be answered once, after its last beat",
    Rule.B_ID: "the id must be that of the burst",
    Rule.R_END: "all requested beats must have arrived before a launch ends",
    Rule.B_END: "all bursts must have been written and answered before a launch ends",
}


class ProtocolError(BrokenRunError):
    """A rule of the memory port was broken: ``rule``, in ``cycle`` of the launch."""

    def __init__(self, rule: Rule, cycle: int) -> None:
        self.rule, self.cycle = rule, cycle
        super().__init__(
            f"The {rule.side} broke rule {rule.name} of the memory port on channel {rule.channel} in cycle {cycle}: "
            f"{rule.text}."
        )


class Protocol:
    """Checks a memory port from reset on. Of several rules broken in one cycle, it reports the first one checked.

    `see` takes the signals of each cycle, `end` the cycle in which a launch has ended. Both raise
    :class:`ProtocolError`.
    """

    def __init__(self, memory: MemoryConfig) -> None:
        self.bus, self.most, self.outstanding = memory.bus_bits // 8, memory.burst_beats, memory.outstanding_reads
        self.kind = (log2(self.bus), INCREMENTING)
        # What each channel offered that was not accepted: AR, AW, W, R, B.
        self.held: list[tuple[int, ...] | None] = [None] * 5
        self.reads: tuple[deque[int], ...] = tuple(deque() for _ in range(WRITE_ID + 1))  # by id, beats to come
        self.inflight = 0
        self.writes: deque[int] = deque()  # of each burst, beats to come
        self.unanswered = 0  # bursts whose data have all come

    def see(self, cycle: int, ar: Address, aw: Address, w: WriteBeat, r: ReadBeat, b: Response) -> None:
        """Check one cycle."""
        held = self.held
        for number, channel in enumerate((ar, aw, w, r, b)):
            before = held[number]
            if before is not None:
                if not channel[0]:
                    raise ProtocolError(_VALID[number], cycle)
                if channel[2:] != before:
                    raise ProtocolError(_STABLE[number], cycle)
                held[number] = None
            if channel[0] and not channel[1]:
                held[number] = channel[2:]
        if ar[0]:
            self._burst(cycle, ar, Rule.AR_KIND)
            if ar[6] >= WRITE_ID:
                raise ProtocolError(Rule.AR_ID, cycle)
            if self.inflight >= self.outstanding:
                raise ProtocolError(Rule.AR_OUTSTANDING, cycle)
        if aw[0]:
            self._burst(cycle, aw, Rule.AW_KIND)
            if aw[6] != WRITE_ID:
                raise ProtocolError(Rule.AW_ID, cycle)
        if w[0]:
            if not self.writes:
                raise ProtocolError(Rule.W_ADDRESS, cycle)
            if w[4] != (self.writes[0] == 1):
                raise ProtocolError(Rule.W_LAST, cycle)
        if r[0]:
            beats = self.reads[r[2]]
            if not beats:
                raise ProtocolError(Rule.R_BURST, cycle)
            if r[4] != (beats[0] == 1):
                raise ProtocolError(Rule.R_LAST, cycle)
        if b[0]:
            if not self.unanswered:
                raise ProtocolError(Rule.B_BURST, cycle)
            if b[2] != WRITE_ID:
                raise ProtocolError(Rule.B_ID, cycle)
        self._take(ar, aw, w, r, b)

    def end(self, cycle: int) -> None:
        """Check that nothing is pending: the launch has ended before this cycle."""
        if self.inflight:
            raise ProtocolError(Rule.R_END, cycle)
        if self.writes or self.unanswered:
            raise ProtocolError(Rule.B_END, cycle)

    def _burst(self, cycle: int, channel: Address, first: Rule) -> None:
        """Check the rules of a burst, which are numbered from ``first`` on."""
        _, _, address, length, size, burst, _ = channel
        beats = length + 1
        if (size, burst) != self.kind or address % self.bus:
            raise ProtocolError(first, cycle)
        if address % PAGE_BYTES + beats * self.bus > PAGE_BYTES:
            raise ProtocolError(Rule(first + 1), cycle)
        if beats > self.most:
            raise ProtocolError(Rule(first + 2), cycle)

    def _take(self, ar: Address, aw: Address, w: WriteBeat, r: ReadBeat, b: Response) -> None:
        """Apply the handshakes of this cycle; data come later than their address, and responses later than data."""
        if b[0] and b[1]:
            self.unanswered -= 1
        if w[0] and w[1]:
            self.writes[0] -= 1
            if w[4]:
                self.writes.popleft()
                self.unanswered += 1
        if r[0] and r[1]:
            beats = self.reads[r[2]]
            beats[0] -= 1
            if r[4]:
                beats.popleft()
                self.inflight -= 1
        if ar[0] and ar[1]:
            self.reads[ar[6]].append(ar[3] + 1)
            self.inflight += 1
        if aw[0] and aw[1]:
            self.writes.append(aw[3] + 1)


_VALID = (Rule.AR_VALID, Rule.AW_VALID, Rule.W_VALID, Rule.R_VALID, Rule.B_VALID)
_STABLE = (Rule.AR_STABLE, Rule.AW_STABLE, Rule.W_STABLE, Rule.R_STABLE, Rule.B_STABLE)
