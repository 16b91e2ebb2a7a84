"""Fields that several instructions share."""

from lathe.configs.encoding import ACC, UOP, UOP_END, Field, bits

HEAD = (
    Field("opcode", bits(3), "which instruction this is"),
    Field("pop_prev", bits(1), "before starting, pop a token from the previous unit"),
    Field("pop_next", bits(1), "before starting, pop a token from the next unit"),
    Field("push_prev", bits(1), "when done, push a token to the previous unit"),
    Field("push_next", bits(1), "when done, push a token to the next unit"),
)

RESET = Field("reset", bits(1), "GEMM: write zeros and read no operand; ALU: ignored")
LOOPS = (
    Field("uop_bgn", UOP, "first micro-op"),
    Field("uop_end", UOP_END, "one past the last micro-op"),
    Field("iter_out", bits(14), "iterations of the outer loop"),
    Field("iter_in", bits(14), "iterations of the inner loop"),
    Field("dst_factor_out", ACC, "added to dst in each outer iteration"),
    Field("dst_factor_in", ACC, "added to dst in each inner iteration"),
)

WHERE = (
    Field("memory_type", bits(3), "the scratchpad, and the format of its vectors in DRAM"),
    Field("sram_base", bits(16), "first scratchpad vector"),
)
DRAM_BASE = "first DRAM vector, counted in vectors of the memory type from address 0"
BLOCK = (
    Field("y_size", bits(16), "rows read from or written to DRAM"),
    Field("x_size", bits(16), "vectors per row"),
    Field("x_stride", bits(16), "DRAM vectors from the start of a row to the start of the next"),
    Field("y_pad_0", bits(4), "rows of padding before the first"),
    Field("y_pad_1", bits(4), "rows of padding after the last"),
    Field("x_pad_0", bits(4), "vectors of padding before each row"),
    Field("x_pad_1", bits(4), "vectors of padding after each row"),
)
