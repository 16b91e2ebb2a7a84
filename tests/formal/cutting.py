"""Reference model of the remaining chains of a burst cutter, for its proofs and those that build on them.

Positions are addresses, which wrap as in the hardware; everything else is a number of bytes or of bus words.
"""

from amaranth import Mux, Signal

PAGE = 4096


class Cut:
    """The chains of a cutter that starts only when idle, and whose bursts are taken only while valid.

    `address` and `rest` are the next byte and the remaining bytes of the first unfinished chain; `chains` is the number
    of unfinished chains. `ahead` holds the same values after the current burst.
    """

    def __init__(self, claim, cutter, limit):
        self.claim, self.cutter = claim, cutter
        self.inside = claim.inside(cutter)
        self.bus = 1 << cutter.shift
        self.words = PAGE // self.bus
        self.most = min(limit, self.words)
        claim.assume(~cutter.start | (cutter.idle & ((cutter.chains == 0) | (cutter.chain_bytes != 0))))
        claim.assume(~cutter.take | cutter.valid)
        self.chains, self.address, self.rest, self.row, self.bytes, self.stride = (
            Signal.like(like, name=f"cut_{name}") for name, like in self._likes().items()
        )
        self._follow()

    def _likes(self):
        cutter = self.cutter
        return {
            "chains": cutter.chains,
            "address": cutter.address,
            "rest": cutter.chain_bytes,
            "row": cutter.address,
            "bytes": cutter.chain_bytes,
            "stride": cutter.stride_bytes,
        }

    def _follow(self):
        """Update the chains: the current burst ends at the chain's end, at the page's end, or at the limit."""
        m, cutter, bus = self.claim.m, self.cutter, self.bus
        self.begin = Signal(len(cutter.address) - cutter.shift, name="cut_begin")  # the bus word of the next byte
        self.to_page, self.room = Signal(13, name="cut_to_page"), Signal(13, name="cut_room")
        self.size, self.ends = Signal(len(cutter.chain_bytes), name="cut_size"), Signal(name="cut_ends")
        offset = self.address[: cutter.shift]
        m.d.comb += [
            self.begin.eq(self.address >> cutter.shift),
            self.to_page.eq(PAGE - self.address[:12]),
            self.room.eq(Mux(self.to_page < self.most * bus - offset, self.to_page, self.most * bus - offset)),
            self.ends.eq(self.rest <= self.room),
            self.size.eq(Mux(self.ends, self.rest, self.room)),
        ]
        ahead = {
            "chains": self.chains - self.ends,
            "address": Mux(self.ends, self.row + self.stride, self.address + self.size),
            "rest": Mux(self.ends, self.bytes, self.rest - self.size),
            "row": Mux(self.ends, self.row + self.stride, self.row),
        }
        self.ahead = {}
        for name, value in ahead.items():
            now = getattr(self, name)
            self.ahead[name] = Signal.like(now, name=f"ahead_{name}")
            m.d.comb += self.ahead[name].eq(Mux(cutter.valid, value, now))
        with m.If(cutter.start):
            m.d.sync += [
                self.chains.eq(cutter.chains),
                self.address.eq(cutter.from_address),
                self.row.eq(cutter.from_address),
                self.rest.eq(cutter.chain_bytes),
                self.bytes.eq(cutter.chain_bytes),
                self.stride.eq(cutter.stride_bytes),
            ]
        with m.Elif(cutter.take):
            m.d.sync += [getattr(self, name).eq(value) for name, value in self.ahead.items()]

    def check_registers(self):
        """Assert that the cutter's registers hold the state after the current burst."""
        always, cutter, inside, ahead = self.claim.always, self.cutter, self.inside, self.ahead
        more = ahead["chains"] != 0
        position, rest = ahead["address"], ahead["rest"]
        offset, word = position[: cutter.shift], position[cutter.shift :]
        to_page = Signal(14, name="after_to_page")
        left = Signal(len(cutter.chain_bytes) + 2, name="after_left")
        self.claim.m.d.comb += [
            to_page.eq(self.words - (word % self.words)),
            left.eq((offset + rest + self.bus - 1) >> cutter.shift),
        ]
        always("a valid burst belongs to a chain", ~cutter.valid | (self.chains != 0))
        always("no chain is empty", (self.chains == 0) | ((self.rest != 0) & (self.bytes != 0)))
        always("chains that are not split", inside["chains"] == ahead["chains"])
        always("whether there are any", inside["more"] == more)
        always("whether there is one", inside["single"] == (ahead["chains"] == 1))
        always("bytes of a chain", ~more | (inside["chain_bytes"] == self.bytes))
        always("bytes from one chain to the next", ~more | (inside["stride"] == self.stride))
        always(
            "where the next chain begins",
            ~more | (inside["following"] == (ahead["row"] + self.stride)[: len(position)]),
        )
        always("the next word", ~more | (inside["word"] == word))
        at = Mux(inside["begins"], inside["offset"], 0)
        if cutter.shift:
            always("the byte of it", ~more | (at == offset))
        always("where the chain ends", ~more | (inside["chain_end"] == (position + rest)[: len(position)]))
        always("remaining words", ~more | (inside["left"] == left))
        always("words up to the page's end", ~more | (inside["to_page"] == to_page))
        always("words of a burst", ~more | (inside["room"] == Mux(to_page < self.most, to_page, self.most)))

    def check_burst(self):
        """Assert that the current burst is the next one of the chains."""
        always, cutter = self.claim.always, self.cutter
        last = (self.chains == 1) & self.ends
        always("it begins where the previous one ended", ~cutter.valid | (cutter.address == self.address))
        beats = Signal(len(cutter.chain_bytes) + 2, name="shown_beats")
        self.claim.m.d.comb += beats.eq((self.address[: cutter.shift] + self.size + self.bus - 1) >> cutter.shift)
        always("its beats are the words that it touches", ~cutter.valid | (cutter.beats == beats))
        end = (self.address + self.size)[: len(cutter.end)]
        always("it ends where it must, and no earlier", ~cutter.valid | (cutter.end == end))
        always("the last one is that of the last chain's end", ~cutter.valid | (cutter.last == last))
