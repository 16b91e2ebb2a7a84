"""Command queues: which commands they hold, for all time, and when a unit sees the first of them."""

import pytest
from amaranth import Mux, Signal
from claims import proved

from lathe.configs.encoding import INSTRUCTION_BITS
from lathe.configs.memory import DECODE, DECODE_STAGES
from lathe.isa.table import Unit
from lathe.rtl import command_queue
from lathe.rtl.stall import CommandPort

# The skid buffer is used only if the queue holds more commands than there are decode stages.
depths = pytest.mark.parametrize("depth", [4, 5])
shallow = pytest.mark.parametrize("depth", [1, 2, 3])


class Waiting:
    """A queue that fetch writes only when it is not full, and whose unit takes only valid commands."""

    def __init__(self, claim, rtl, depth):
        self.claim, self.port = claim, CommandPort(Unit.LOAD)
        self.unit = unit = claim.about(rtl.CommandQueue(depth, self.port))
        self.names = claim.inside(unit)
        self.fifo = unit.fifo
        claim.assume(~(unit.w_en & unit.full))
        claim.assume(~(self.port.take & ~self.port.valid))
        self.came, self.taken = Signal(8), Signal(8)
        claim.m.d.sync += [self.came.eq(self.came + unit.w_en), self.taken.eq(self.taken + self.port.take)]
        self.inside = (self.came - self.taken)[:8]

    @property
    def entries(self):
        """The entries outside the FIFO's memory, oldest first: whether there is a command, and its word."""
        stages = [
            (self.names[f"valid{stage}"], self.port.words[stage]) for stage in reversed(range(1, DECODE_STAGES + 1))
        ]
        return [*stages, (self.names["aside"], self.names["kept"]), (self.fifo.r_valid, self.fifo.r_data)]

    def check_count(self):
        """Assert the number of commands, and full, empty and settled."""
        claim, unit, fifo = self.claim, self.unit, self.fifo
        claim.always("the count is that of the commands that wait", unit.waiting == self.inside)
        claim.always("never more than the depth", self.inside <= unit.depth)
        claim.always("full means that as many wait", unit.full == (self.inside == unit.depth))
        claim.always("empty means that none does", unit.empty == (self.inside == 0))
        claim.always("a command is seen only while one waits", ~self.port.valid | (self.inside != 0))
        settled = self.port.valid | (self.inside == 0)
        claim.always("settled means that the first is seen, if one waits", unit.settled == settled)
        before = sum(there for there, _ in self.entries[:-1])
        claim.always("all are in the stages, the skid buffer or the queue", self.inside == before + fifo.level)
        # The FIFO's own invariants; see `test_fifos.py`.
        self.stored, between = Signal(9), Signal(9)
        claim.m.d.comb += [
            between.eq(Mux(fifo.tail > fifo.head, fifo.tail - fifo.head, fifo.tail + fifo.depth - fifo.head)),
            self.stored.eq(Mux(fifo.behind, between, 0)),
        ]
        claim.always("head and tail are addresses", (fifo.head < fifo.depth) & (fifo.tail < fifo.depth))
        claim.always("words wait from the head on, as far as the tail", fifo.behind | (fifo.tail == fifo.head))
        claim.always("all words are at the head or in the memory", fifo.level == fifo.r_valid + self.stored)
        claim.always("the memory is never full", self.stored <= Mux(fifo.r_valid, fifo.depth - 1, 1))

    def check_order(self):
        """Assert that the command dispatched at an arbitrary position is seen at that position."""
        claim, fifo = self.claim, self.fifo
        position = claim.constant(8, "position")
        word, waits = Signal(INSTRUCTION_BITS), Signal()
        with claim.m.If(self.unit.w_en & (self.came == position)):
            claim.m.d.sync += [word.eq(self.unit.word), waits.eq(1)]
        with claim.m.Elif(self.port.take & (self.taken == position)):
            claim.m.d.sync += waits.eq(0)
        before = Signal(8)
        claim.m.d.comb += before.eq(position - self.taken)
        claim.always("a command waits until it is taken", waits == (before < self.inside))
        claim.always(
            "what is seen is the first one", ~(self.port.valid & waits & (before == 0)) | (self.port.word == word)
        )
        ahead = 0
        for number, (there, shown) in enumerate(self.entries):
            here = waits & there & (before == ahead)
            claim.always(f"the command is in its entry, {number}", ~here | (shown == word))
            ahead = ahead + there
        at_head, at_word = (fifo.ram.memory.read_port(domain="comb") for _ in range(2))
        slot = Signal(9)
        claim.m.d.comb += [
            slot.eq(fifo.head + before - ahead),
            at_head.addr.eq(fifo.head),
            at_word.addr.eq(Mux(slot >= fifo.depth, slot - fifo.depth, slot)),
        ]
        claim.always("the memory's output is the next word", ~fifo.behind | (fifo.ram.r_data == at_head.data))
        claim.always("the word is at its address", ~(waits & (before >= ahead)) | (at_word.data == word))


@pytest.mark.slow
@depths
@proved(
    command_queue,
    ("aside.eq(valid[0] & ~port.advance[0])", "aside.eq(0)"),
    ("fifo.r_en.eq(~aside)", "fifo.r_en.eq(~aside & ~port.take)"),
    ("self.empty.eq(self.waiting == 0)", "self.empty.eq(~fifo.r_valid)"),
    ("self.empty | port.valid", "~fifo.r_valid | port.valid"),
    ("UpDownCounter(self.depth,", "UpDownCounter(self.depth + 1,"),
    induction=1,
    depth=14,
)
def test_no_command_is_lost_or_doubled_and_never_more_wait_than_the_depth(claim, rtl, depth):
    Waiting(claim, rtl, depth).check_count()


@pytest.mark.slow
@depths
@proved(
    command_queue,
    ("port.take | ~Cat(*valid[stage + 1 :]).all()", "1"),
    ("with m.If(~aside):", "with m.If(1):"),
    ("port.words[stage + 1].eq(port.words[stage])", "port.words[stage + 1].eq(port.words[0])"),
    induction=1,
    depth=14,
)
def test_commands_are_seen_in_the_order_in_which_they_were_dispatched(claim, rtl, depth):
    proved_in_order(claim, rtl, depth)


@pytest.mark.slow
@shallow
@proved(
    command_queue,
    ("self.empty.eq(self.waiting == 0)", "self.empty.eq(~fifo.r_valid)"),
    ("port.words[stage + 1].eq(port.words[stage])", "port.words[stage + 1].eq(port.words[0][1:])"),
    ("UpDownCounter(self.depth,", "UpDownCounter(self.depth + 1,"),
    induction=1,
    depth=10,
)
def test_commands_that_all_fit_into_the_stages_keep_their_order(claim, rtl, depth):
    proved_in_order(claim, rtl, depth)


def proved_in_order(claim, rtl, depth):
    found = Waiting(claim, rtl, depth)
    found.check_count()
    found.check_order()


@pytest.mark.sample(1)
@pytest.mark.parametrize("depth", [2, 3, 5])
@proved(
    command_queue,
    ("detour=True", "detour=False"),
    ("valid[stage + 1].eq(valid[stage])", "valid[stage + 1].eq(valid[0])"),
    ("~Cat(*valid[stage + 1 :]).all()", "~valid[-1]"),
    depth=14,
)
def test_a_command_is_seen_exactly_when_it_is_decoded_and_those_before_it_are_taken(claim, rtl, depth):
    found = Waiting(claim, rtl, depth)
    decoded = found.came  # commands that were dispatched `DECODE` cycles ago
    for cycle in range(DECODE):
        decoded = claim.register(8, f"came{cycle}", decoded)
    claim.always("seen in time, and not before", found.port.valid == (decoded != found.taken))
