"""The words that lie in a FIFO, in order: reference for proofs of units that have FIFOs within them."""

from amaranth import Mux, Signal


class Words:
    """What was written into a FIFO and not yet taken: `words`, the one that leaves next first, and how many, `count`.

    The FIFO has no detour. Of more words than it has places nothing is known.
    """

    def __init__(self, claim, fifo, name):
        self.claim, self.fifo, self.name = claim, fifo, name
        self.count = Signal(range(fifo.depth + 2), name=f"{name}_count")
        self.words = [Signal(fifo.width, name=f"{name}_word{place}") for place in range(fifo.depth)]
        self.leaves = Signal(name=f"{name}_leaves")
        claim.m.d.comb += self.leaves.eq(fifo.r_en & fifo.r_valid)
        self.stays = kept_in_order(claim, self.words, self.count, self.leaves, fifo.w_en, fifo.w_data)

    def there(self, place):
        """Whether there is a word in a place."""
        return self.count > place

    def kept(self):
        """That the words are where the FIFO has them."""
        claim, fifo, always = self.claim, self.fifo, self.claim.always
        always(f"{self.name} has no more words than places", self.count <= fifo.depth)
        always(f"{self.name} counts its words", fifo.level == self.count)
        always(f"{self.name} shows a word while it has one", fifo.r_valid == (self.count != 0))
        always(f"{self.name} shows its first word", ~fifo.r_valid | (fifo.r_data == self.words[0]))
        if fifo.depth == 1:
            return
        always(f"{self.name} begins and ends within its memory", (fifo.head < fifo.depth) & (fifo.tail < fifo.depth))
        always(f"{self.name} has all but the first in its memory", fifo.behind == (self.count > 1))
        behind = Mux(self.count == 0, 0, self.count - 1)
        always(f"{self.name} ends behind its last word", fifo.tail == self._place(behind, "tail"))
        for place in range(1, fifo.depth):
            at = fifo.ram.memory.read_port(domain="comb")
            claim.m.d.comb += at.addr.eq(self._place(place - 1, place))
            always(f"{self.name} has word {place}", ~self.there(place) | (at.data == self.words[place]))
        always(f"{self.name} has read the second word", ~self.there(1) | (fifo.ram.r_data == self.words[1]))

    def _place(self, behind, name):
        """Where in the memory a word lies."""
        at = Signal(range(2 * self.fifo.depth), name=f"{self.name}_at_{name}")
        self.claim.m.d.comb += at.eq(self.fifo.head + behind)
        return Mux(at >= self.fifo.depth, at - self.fifo.depth, at)


def kept_in_order(claim, words, count, leaves, enters, new, changed=None):
    """Drive `words` and `count`: the first one leaves, and a new one enters behind the last. Returns what stays.

    `changed`: what becomes of the words meanwhile, if anything.
    """
    changed = changed or words
    stays = Signal.like(count)
    claim.m.d.comb += stays.eq(count - leaves)
    claim.m.d.sync += count.eq(stays + enters)
    for place, word in enumerate(words):
        with claim.m.If(enters & (stays == place)):
            claim.m.d.sync += word.eq(new)
        with claim.m.Elif(leaves):
            claim.m.d.sync += word.eq(changed[min(place + 1, len(words) - 1)])
        with claim.m.Else():
            claim.m.d.sync += word.eq(changed[place])
    return stays
