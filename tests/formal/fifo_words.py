"""Reference model of the words in a FIFO, in order, for proofs of units that contain FIFOs."""

from amaranth import Mux, Signal


class Words:
    """The words in a FIFO: `words`, in the order in which they leave, and their number, `count`.

    For a FIFO without `detour`. The contents are undefined after an overflow.
    """

    def __init__(self, claim, fifo, name):
        self.claim, self.fifo, self.name = claim, fifo, name
        self.count = Signal(range(fifo.depth + 2), name=f"{name}_count")
        self.words = [Signal(fifo.width, name=f"{name}_word{index}") for index in range(fifo.depth)]
        self.leaves = Signal(name=f"{name}_leaves")
        claim.m.d.comb += self.leaves.eq(fifo.r_en & fifo.r_valid)
        self.stays = kept_in_order(claim, self.words, self.count, self.leaves, fifo.w_en, fifo.w_data)

    def there(self, index):
        """Whether the FIFO has a word at this position."""
        return self.count > index

    def check(self):
        """Assert that the words are those in the FIFO's registers and memory."""
        claim, fifo, always = self.claim, self.fifo, self.claim.always
        always(f"{self.name} does not overflow", self.count <= fifo.depth)
        always(f"{self.name} counts its words", fifo.level == self.count)
        always(f"{self.name} shows a word while it has one", fifo.r_valid == (self.count != 0))
        always(f"{self.name} shows its first word", ~fifo.r_valid | (fifo.r_data == self.words[0]))
        if fifo.depth == 1:
            return
        always(f"{self.name} begins and ends within its memory", (fifo.head < fifo.depth) & (fifo.tail < fifo.depth))
        always(f"{self.name} has all but the first in its memory", fifo.behind == (self.count > 1))
        offset = Mux(self.count == 0, 0, self.count - 1)
        always(f"{self.name} ends after its last word", fifo.tail == self._address(offset, "tail"))
        for index in range(1, fifo.depth):
            at = fifo.ram.memory.read_port(domain="comb")
            claim.m.d.comb += at.addr.eq(self._address(index - 1, index))
            always(f"{self.name} has word {index}", ~self.there(index) | (at.data == self.words[index]))
        always(f"{self.name} has read the second word", ~self.there(1) | (fifo.ram.r_data == self.words[1]))

    def _address(self, offset, name):
        """The memory address at an offset from the head."""
        at = Signal(range(2 * self.fifo.depth), name=f"{self.name}_at_{name}")
        self.claim.m.d.comb += at.eq(self.fifo.head + offset)
        return Mux(at >= self.fifo.depth, at - self.fifo.depth, at)


def kept_in_order(claim, words, count, leaves, enters, new, changed=None):
    """Drive the queue `words`, `count`: the first word may leave, a new one may enter. Returns how many words remain.

    `changed`: the updated words, if words change while they wait.
    """
    changed = changed or words
    stays = Signal.like(count)
    claim.m.d.comb += stays.eq(count - leaves)
    claim.m.d.sync += count.eq(stays + enters)
    for index, word in enumerate(words):
        with claim.m.If(enters & (stays == index)):
            claim.m.d.sync += word.eq(new)
        with claim.m.Elif(leaves):
            claim.m.d.sync += word.eq(changed[min(index + 1, len(words) - 1)])
        with claim.m.Else():
            claim.m.d.sync += word.eq(changed[index])
    return stays
