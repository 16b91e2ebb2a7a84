"""The matrix core: the matrix product of an inp and a wgt vector, by multipliers and a pipelined adder tree."""

from amaranth import Elaboratable, Module, Signal, signed
from amaranth.hdl import Value

from lathe.rtl.derived_widths import Geometry, log2

PRODUCT_BITS = 16


class MatrixCore(Elaboratable):
    """`inp` (batch × block_in int8) and `wgt` (block_out × block_in int8) in cycle t give `sums`, one for each value of
    the accumulator vector, in cycle t + `latency`.

    Multiplication takes one cycle; the tree's levels are spread over the remaining stages of the pipeline. `valid` is
    the clock enable of the registers.
    """

    def __init__(self, geometry: Geometry) -> None:
        config = geometry.config
        self.batch, self.block_in, self.block_out = config.batch, config.block_in, config.block_out
        # The pipeline: micro-op read, operand read, multiplication, the tree's stages, accumulation.
        self.tree_stages = geometry.pipeline - 3
        self.latency = 1 + self.tree_stages
        self.valid = Signal(self.latency)  # bit s: an operation is in stage s
        self.inp = Signal(config.inp_element_bytes * 8, reset_less=True)
        self.wgt = Signal(config.wgt_element_bytes * 8, reset_less=True)
        bits = PRODUCT_BITS + log2(config.block_in)
        self.sums = [Signal(signed(bits), name=f"sum{i}") for i in range(self.batch * self.block_out)]

    def elaborate(self, _platform: object) -> Module:
        m = Module()
        levels = log2(self.block_in)
        stages = self.tree_stages
        # Levels of the tree in each stage; without stages, the whole tree is in the cycle of accumulation.
        share = [levels * (stage + 1) // stages - levels * stage // stages for stage in range(stages)]
        for row in range(self.batch):
            for column in range(self.block_out):
                terms: list[Value] = [self._product(m, row, column, term) for term in range(self.block_in)]
                for stage, count in enumerate(share):
                    for _ in range(count):
                        terms = pairs(terms)
                    terms = self._registered(m, terms, stage, f"s{stage}_{row}_{column}")
                while len(terms) > 1:
                    terms = pairs(terms)
                m.d.comb += self.sums[row * self.block_out + column].eq(terms[0])
        return m

    def _product(self, m: Module, row: int, column: int, term: int) -> Signal:
        inp = self.inp.word_select(row * self.block_in + term, 8).as_signed()
        wgt = self.wgt.word_select(column * self.block_in + term, 8).as_signed()
        product = Signal(signed(PRODUCT_BITS), name=f"product_{row}_{column}_{term}", reset_less=True)
        with m.If(self.valid[0]):
            m.d.sync += product.eq(inp * wgt)
        return product

    def _registered(self, m: Module, terms: list[Value], stage: int, name: str) -> list[Value]:
        registers = [Signal(term.shape(), name=f"{name}_{i}", reset_less=True) for i, term in enumerate(terms)]
        with m.If(self.valid[stage + 1]):
            m.d.sync += [register.eq(term) for register, term in zip(registers, terms, strict=True)]
        return list(registers)


def pairs(terms: list[Value]) -> list[Value]:
    """One level of an adder tree: the sums of adjacent terms."""
    return [first + second for first, second in zip(terms[::2], terms[1::2], strict=True)]
