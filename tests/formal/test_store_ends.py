"""The ends of stores: in order, each after the response to its last burst, with its own tokens."""

import pytest
from amaranth import Cat, Mux, Signal
from amaranth.lib import data
from claims import proved
from fifo_words import Words, kept_in_order

from lathe.configs import load_config
from lathe.isa.table import QUEUE_OF, Unit
from lathe.rtl import store
from lathe.rtl.derived_widths import Geometry

# Far more than the bursts without response that a write channel allows; see `test_write_channel.py`.
MOST = 1 << (store.SERIAL_BITS - 1)


class Ended:
    """The stores in progress, in order, and the number of responses that each still waits for.

    Requests, decoder, channel and guard are unconstrained, except that an empty store has no burst, and that a burst
    has a response only after its last beat. Behaviour after a fault is not covered.
    """

    def __init__(self, claim, rtl, pending):
        self.claim, self.pending = claim, pending
        config = load_config("tiny").with_(**{"timing.dma_pending": pending})
        self.unit = unit = claim.about(rtl.Store(Geometry(config)))
        self.channel, self.command = unit.channel, unit.command
        self.requests, self.decoder = claim.part(unit, "requests"), claim.part(unit, "decoder")
        self.stored = Words(claim, claim.part(unit, "stores"), "stores")
        self.targets = Words(claim, claim.part(unit, "targets"), "targets")
        for part in (self.requests, self.decoder, self.channel, unit.guard):
            claim.leave_open(part)
        self.inside = claim.inside(unit)
        claim.assume(~unit.stop)
        shape = data.StructLayout({"pushes": 2, "empty": 1, "packed": 1, "waits": store.SERIAL_BITS})
        self.stores = [Signal(shape, name=f"store{index}") for index in range(pending)]
        self.count = Signal(range(pending + 2), name="stores")
        self._follow()

    def _follow(self):
        claim, m, inside, channel = self.claim, self.claim.m, self.inside, self.channel
        transfer = self.decoder.transfer
        # The number of completely packed bursts without response.
        self.whole = Signal(store.SERIAL_BITS, name="whole_bursts")
        m.d.sync += self.whole.eq(self.whole + (inside["step"] & inside["last_beat"]) - channel.responded)
        claim.assume(~channel.responded | (self.whole != 0))
        claim.assume(~self.requests.valid | (self.requests.beats != 0))
        claim.assume(~(self.requests.valid & inside["nothing"]))
        claim.assume(self.whole + inside["begun"] < MOST - 1)
        begins = self.requests.take
        self.changed = []
        answered = channel.responded  # the response is not assigned to a store yet
        for index, store_ in enumerate(self.stores):
            changed = Signal(store_.shape(), name=f"changed{index}")
            youngest = self.count == index + 1
            its = Signal(name=f"responded{index}")
            m.d.comb += [
                its.eq(answered & (self.count > index) & (store_.waits != 0)),
                changed.eq(store_),
                changed.waits.eq(store_.waits + (youngest & begins) - its),
                changed.packed.eq(store_.packed | (youngest & self.unit.activity.retire)),
            ]
            answered = answered & ~its
            self.changed.append(changed)
        first = self.changed[0]
        self.ends = Signal(name="ends")
        m.d.comb += self.ends.eq((self.count != 0) & (first.empty | (self.stores[0].packed & (first.waits == 0))))
        new = Signal(self.stores[0].shape(), name="new_store")
        m.d.comb += [new.pushes.eq(transfer.pushes), new.empty.eq(transfer.chains == 0)]
        words = [store_.as_value() for store_ in self.stores]
        changed = [store_.as_value() for store_ in self.changed]
        kept_in_order(claim, words, self.count, self.ends, self.command.take, new.as_value(), changed)

    def check_registers(self):
        """Assert the contents of store's registers."""
        always, inside = self.claim.always, self.inside
        self.stored.check()
        self.targets.check()
        always("no more stores than it can have", self.count <= self.pending)
        always("they are counted", inside["under_way"] == self.count)
        always("full when it has as many as it can have", inside["under_way_full"] == (self.count == self.pending))
        always("each of them waits for its end", self.stored.count == self.count)
        there = [self.count > index for index in range(self.pending)]
        packing = sum(is_there & ~store_.packed for is_there, store_ in zip(there, self.stores, strict=True))
        always("the one in packing is one of them", inside["packing"] == packing)
        waits, targets, ended = 0, 0, 0
        for index, store_ in enumerate(self.stores):
            here, youngest = there[index], self.count == index + 1
            same = self.stored.words[index] == Cat(store_.pushes, store_.empty)
            always(f"store {index} in order", ~here | same)
            always(f"store {index} is packed, or the last", ~here | store_.packed | youngest)
            packs = here & ~store_.packed
            always(f"store {index} is empty, or not", ~packs | (inside["nothing"] == store_.empty))
            always(f"store {index} has a target, or not", ~packs | (inside["packs"] == ~store_.empty))
            always(f"store {index} waits for what it began", ~(packs & inside["begun"]) | (store_.waits != 0))
            always(f"store {index} has no burst when it is empty", ~here | ~store_.empty | (store_.waits == 0))
            waits = waits + Mux(here, store_.waits, 0)
            total = Signal(store.SERIAL_BITS, name=f"last_of{index}")
            self.claim.m.d.comb += total.eq(inside["answers"] - 1 + waits)
            aimed = here & store_.packed & ~store_.empty & (store_.waits != 0)
            for target, word in enumerate(self.targets.words):
                always(
                    f"store {index} ends with its last burst {target}", ~(aimed & (targets == target)) | (word == total)
                )
            targets = targets + aimed
            ended = ended + (here & store_.packed & ~store_.empty & (store_.waits == 0))
            for before in range(index):
                earlier = here & (self.stores[before].waits != 0) & store_.packed & ~store_.empty
                always(f"store {before} has its responses before store {index}", ~earlier | (store_.waits != 0))
        always("targets are those of stores that wait for responses", self.targets.count == targets)
        always("stores that have all responses", inside["ended"] == ended)
        always("bursts without response are those of the stores", waits == self.whole + inside["begun"])
        always("a burst belongs to the store in packing", ~inside["begun"] | (inside["packing"] & ~inside["nothing"]))
        always("bursts are counted", inside["packed"] == (inside["answers"] - 1 + waits)[: store.SERIAL_BITS])


@pytest.mark.sample(1)
@pytest.mark.slow
@pytest.mark.parametrize("pending", [1, 2, pytest.param(3, marks=pytest.mark.slow)])
@proved(
    store,
    ("targets.w_data.eq(packed + begins)", "targets.w_data.eq(packed)"),
    ("targets.w_en.eq(activity.retire & packs)", "targets.w_en.eq(activity.retire)"),
    ("ended + now - (activity.end & ~empty)", "ended + now - activity.end"),
    ("(answers == targets.r_data)", "1"),
    ("activity.end.eq(stores.r_valid & (empty | moved))", "activity.end.eq(stores.r_valid & moved)"),
    ("stores.w_data.eq(transfer.pushes |", "stores.w_data.eq(3 |"),
    induction=1,
    depth=10,
)
def test_stores_end_in_order_each_with_the_response_to_its_last_burst(claim, rtl, pending):
    ended = Ended(claim, rtl, pending)
    ended.check_registers()
    unit, always = ended.unit, claim.always
    always("a store ends as soon as possible", unit.activity.end == ended.ends)
    queue = QUEUE_OF[Unit.STORE, "push_prev"]
    pushes = ended.ends & ended.stores[0].pushes[0]
    always("with its token, and no other", ended.command.pushes == pushes << queue)
    always("it is idle when none is left", unit.idle == (ended.count == 0))
    always("it starts none beyond its maximum", ~ended.command.take | (ended.count != pending))
