"""What is left of the chains that a burst cutter was given: reference for its proofs, and for those that rest on them.

Positions are addresses, which wrap as the hardware's do; everything else is a number of bytes or of bus words.
"""

from amaranth import Mux, Signal

PAGE = 4096


class Cut:
    """The chains of a cutter that starts only when it is idle, and whose bursts are taken only while they are shown.

    `address` and `rest` are of the first chain that is not taken whole: its next byte, and how many it has from there
    on. `chains` is how many such chains there are. `ahead` is the same behind the burst that is shown.
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
        """How that goes on: the burst that is shown goes to the chain's end, to its page's, or to the limit."""
        m, cutter, bus = self.claim.m, self.cutter, self.bus
        self.begin = Signal(len(cutter.address) - cutter.shift, name="cut_begin")  # the word of the next byte
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

    def kept(self):
        """That the cutter's registers hold what is behind the burst that is shown."""
        always, cutter, inside, ahead = self.claim.always, self.cutter, self.inside, self.ahead
        more = ahead["chains"] != 0
        position, rest = ahead["address"], ahead["rest"]
        offset, word = position[: cutter.shift], position[cutter.shift :]
        to_page = Signal(14, name="behind_to_page")
        left = Signal(len(cutter.chain_bytes) + 2, name="behind_left")
        self.claim.m.d.comb += [
            to_page.eq(self.words - (word % self.words)),
            left.eq((offset + rest + self.bus - 1) >> cutter.shift),
        ]
        always("a burst is shown of a chain", ~cutter.valid | (self.chains != 0))
        always("no chain is empty", (self.chains == 0) | ((self.rest != 0) & (self.bytes != 0)))
        always("chains that are not cut", inside["chains"] == ahead["chains"])
        always("whether there are any", inside["more"] == more)
        always("whether it is one", inside["single"] == (ahead["chains"] == 1))
        always("bytes of a chain, and from one to the next", ~more | (inside["chain_bytes"] == self.bytes))
        always("bytes from one to the next", ~more | (inside["stride"] == self.stride))
        always(
            "where the next chain begins",
            ~more | (inside["following"] == (ahead["row"] + self.stride)[: len(position)]),
        )
        always("the next word", ~more | (inside["word"] == word))
        at = Mux(inside["begins"], inside["offset"], 0)
        if cutter.shift:
            always("the byte of it", ~more | (at == offset))
        always("where the chain ends", ~more | (inside["chain_end"] == (position + rest)[: len(position)]))
        always("words that are left", ~more | (inside["left"] == left))
        always("words up to the page's end", ~more | (inside["to_page"] == to_page))
        always("words of a burst", ~more | (inside["room"] == Mux(to_page < self.most, to_page, self.most)))

    def shown(self):
        """That the burst shown is the next one."""
        always, cutter = self.claim.always, self.cutter
        last = (self.chains == 1) & self.ends
        always("it begins where the one before ended", ~cutter.valid | (cutter.address == self.address))
        beats = Signal(len(cutter.chain_bytes) + 2, name="shown_beats")
        self.claim.m.d.comb += beats.eq((self.address[: cutter.shift] + self.size + self.bus - 1) >> cutter.shift)
        always("its beats are the words that it touches", ~cutter.valid | (cutter.beats == beats))
        end = (self.address + self.size)[: len(cutter.end)]
        always("it ends where it must, and no earlier", ~cutter.valid | (cutter.end == end))
        always("the last one is that of the last chain's end", ~cutter.valid | (cutter.last == last))
