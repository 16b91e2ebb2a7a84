"""Splits chains, which are contiguous ranges of bytes, into AXI bursts."""

from typing import Any

from amaranth import Cat, Elaboratable, Module, Mux, Signal
from amaranth.hdl import Value

from lathe.configs.memory import PAGE_BYTES
from lathe.rtl.derived_widths import Geometry, log2

CHAIN_BITS = 16


class BurstCutter(Elaboratable):
    """Splits chains into bursts: each ends with its chain, at a page boundary, or after `limit` bus words.

    While `idle`, `start` takes the number of `chains`, the `from_address` of the first, `chain_bytes` of each, and
    `stride_bytes` between their starts. From two cycles later on, while `valid`, there is a burst: its `address`,
    `beats` and `end` (one past its last byte), and whether it is the `last` of all; the next one follows in the cycle
    after `take`.

    A burst transfers all bus words that it touches, so only the ends of a chain need byte addresses, and everything in
    between is counted in words. The burst is held in registers while the next one is computed.
    """

    def __init__(self, geometry: Geometry, limit: int, rest_bits: int, stride_bits: int = 1) -> None:
        self.geometry, self.limit = geometry, limit
        self.shift = log2(geometry.bus_bytes)
        self.start = Signal()
        self.chains = Signal(CHAIN_BITS)
        self.from_address = Signal(geometry.address_bits)
        self.chain_bytes = Signal(rest_bits)
        self.stride_bytes = Signal(stride_bits)
        self.take = Signal()
        self.idle = Signal()
        self.valid = Signal()
        self.address = Signal(geometry.address_bits, reset_less=True)
        self.beats = Signal(range(min(limit, PAGE_BYTES // geometry.bus_bytes) + 1), reset_less=True)
        self.end = Signal(geometry.address_bits, reset_less=True)
        self.last = Signal(reset_less=True)

    def take_chains(self, m: Module, transfer: Any) -> None:
        """Connect the chains of a transfer, which `start` takes."""
        m.d.comb += [
            self.chains.eq(transfer.chains),
            self.from_address.eq(transfer.address),
            self.chain_bytes.eq(transfer.chain_bytes),
            self.stride_bytes.eq(transfer.stride_bytes),
        ]

    def elaborate(self, _platform: object) -> Module:
        m = Module()
        words = PAGE_BYTES >> self.shift  # per page
        most = min(self.limit, words)
        # Chains that are not completely split: how many, whether there are any, and whether there is one.
        chains = Signal(CHAIN_BITS)
        more = Signal()
        single = Signal()
        chain_bytes = Signal.like(self.chain_bytes, reset_less=True)
        stride = Signal.like(self.stride_bytes, reset_less=True)
        following = Signal.like(self.from_address, reset_less=True)  # start of the next chain
        # Of the current chain: whether its first burst is still to come, and the byte of a word at which it starts; the
        # next word, the words left in the chain and in the page.
        begins = Signal(reset_less=True)
        offset = Signal(self.shift, reset_less=True)
        chain_end = Signal.like(self.from_address, reset_less=True)
        word = Signal(len(self.address) - self.shift, reset_less=True)
        left = Signal(len(chain_bytes) + 1, reset_less=True)
        to_page = Signal(range(words + 1), reset_less=True)
        room = Signal(range(most + 1), reset_less=True)  # min(`most`, `to_page`)

        beyond = Signal.like(word)
        ends, refill = Signal(), Signal()
        m.d.comb += [
            ends.eq(left <= room),
            beyond.eq(word + room),
            refill.eq((~self.valid | self.take) & more),
            self.idle.eq(~self.valid & ~more),
        ]

        def begin(address: Value, size: Value) -> list[Any]:
            """Make a chain of `size` bytes from `address` on the current one."""
            at, behind = address[: self.shift], address[self.shift :]
            page = words - behind[: log2(words)]
            return [
                begins.eq(1),
                offset.eq(at),
                chain_end.eq(address + size),
                word.eq(behind),
                left.eq((at + size + (self.geometry.bus_bytes - 1)) >> self.shift),
                to_page.eq(page),
                room.eq(Mux(page > most, most, page)),
            ]

        with m.If(self.take):
            m.d.sync += self.valid.eq(0)
        with m.If(self.start):
            m.d.sync += [
                chains.eq(self.chains),
                more.eq(self.chains != 0),
                single.eq(self.chains == 1),
                chain_bytes.eq(self.chain_bytes),
                stride.eq(self.stride_bytes),
                following.eq(self.from_address + self.stride_bytes),
                *begin(self.from_address, self.chain_bytes),
            ]
        with m.Elif(refill):
            m.d.sync += [
                self.valid.eq(1),
                self.address.eq(Cat(Mux(begins, offset, 0)[: self.shift], word)),
                self.beats.eq(Mux(ends, left, room)),
                self.end.eq(Mux(ends, chain_end, beyond << self.shift)),
                self.last.eq(ends & single),
            ]
            with m.If(ends):
                m.d.sync += [
                    chains.eq(chains - 1),
                    more.eq(~single),
                    single.eq(chains == 2),
                    following.eq(following + stride),
                    *begin(following, chain_bytes),
                ]
            with m.Else():
                m.d.sync += [
                    begins.eq(0),
                    word.eq(beyond),
                    left.eq(left - room),
                    to_page.eq(Mux(to_page > most, to_page - most, words)),
                    room.eq(Mux((to_page > most) & (to_page <= 2 * most), to_page - most, most)),
                ]
        return m
