"""The decoders, for each of the 2 ** 128 words.

Fetch's decoder is combinational, so one cycle covers it; the transfer decoder has three stages, and five cycles with
arbitrary advances of the stages cover it.

The expected results are written here independently, from the manual of the instruction set, on bits of the word; they
share only the field positions with the rules from which the decoder is generated.
"""

import pytest
from amaranth import Cat, Const, Mux, Signal
from amaranth.hdl import Value
from claims import proved
from extended_machines import with_extensions
from transfers import is_legal

from lathe.configs import load_config, shipped_configs
from lathe.configs.encoding import INSTRUCTION_BITS
from lathe.configs.extensions import EXTENSIONS
from lathe.isa.table import Opcode, Unit, alu_operations, placements
from lathe.rtl import dma_descriptor, instruction
from lathe.rtl.derived_widths import Geometry
from lathe.rtl.fault import FaultCode
from lathe.rtl.stall import CommandPort
from lathe.rtl.store import STORE_MEMORIES

LOAD, STORE, GEMM, FINISH, ALU, RESCALE = range(6)
_UOP, WGT, INP, _ACC, OUT, ACC8, PAR, LUT = range(8)
machines = pytest.mark.parametrize("name", [*shipped_configs(), "rescale"])


def machine(name):
    """A shipped machine, or `tiny` with a single extension."""
    return with_extensions(load_config("tiny"), (name,)) if name in EXTENSIONS else load_config(name)


class Fields:
    """The fields, as bits, of a word that is interpreted as an instruction with an opcode."""

    def __init__(self, config, opcode, word):
        self.word, self.placed = word, dict(placements(config, opcode))

    def __getattr__(self, name):
        placement = self.placed[name]
        return self.word[placement.lsb : placement.lsb + placement.width]


def decoded(claim, rtl, name):
    config = machine(name)
    decoder = claim.about(rtl.Decoder(config))
    fields = {opcode: Fields(config, opcode, decoder.word) for opcode in Opcode}
    assert len(decoder.word) == INSTRUCTION_BITS
    return decoder, fields


@pytest.mark.sample(3)
@machines
@proved(
    instruction,
    ("self.unit.eq(MEMORIES[memory].load_unit)", "self.unit.eq(Unit.LOAD)"),
    ("self.unit.eq(row.unit)", "self.unit.eq(Unit.COMPUTE)"),
    depth=1,
)
def test_every_instruction_goes_to_the_unit_that_executes_it(claim, rtl, name):
    decoder, fields = decoded(claim, rtl, name)
    opcode, memory = fields[LOAD].opcode, fields[LOAD].memory_type
    to_compute = (memory != INP) & (memory != WGT)  # also out, whose load is illegal
    expected = Signal(2)
    with claim.m.Switch(opcode):
        with claim.m.Case(LOAD):
            claim.m.d.comb += expected.eq(Mux(to_compute, Unit.COMPUTE, Unit.LOAD))
        with claim.m.Case(GEMM, ALU, RESCALE, FINISH):
            claim.m.d.comb += expected.eq(Unit.COMPUTE)
        with claim.m.Case(STORE):
            claim.m.d.comb += expected.eq(Unit.STORE)
    legal = decoder.fault == FaultCode.NONE
    claim.always("the unit exists, also for an illegal word", decoder.unit < len(Unit))
    claim.always("an instruction goes where its opcode and memory belong", ~legal | (decoder.unit == expected))


@pytest.mark.sample(1)
@machines
@proved(
    instruction,
    ("reversed((*WORDS, *DECODING))", "(*WORDS, *DECODING)"),
    ("reversed((*WORDS, *DECODING))", "reversed(DECODING)"),
    ("reversed((*WORDS, *DECODING))", "reversed((*WORDS, *DECODING[:-1]))"),
    depth=1,
)
def test_every_word_is_an_instruction_or_has_the_fault_that_the_manual_names(claim, rtl, name):
    decoder, fields = decoded(claim, rtl, name)
    load, store, alu = (fields[opcode] for opcode in (LOAD, STORE, ALU))
    padded = (store.y_pad_0 | store.y_pad_1 | store.x_pad_0 | store.x_pad_1) != 0
    to_load = (load.memory_type == INP) | (load.memory_type == WGT)
    expected, has_operation = Signal(8, init=FaultCode.NONE), Signal()
    m = claim.m
    extensions = machine(name).extensions
    with m.Switch(alu.alu_opcode), m.Case(*alu_operations(machine(name))):
        m.d.comb += has_operation.eq(1)
    greatest = LUT if "lookup" in extensions else PAR if "rescale" in extensions else ACC8
    with m.If(load.opcode > (RESCALE if "rescale" in extensions else ALU)):
        m.d.comb += expected.eq(FaultCode.OPCODE)
    with m.Elif((load.opcode == RESCALE) & (fields[RESCALE].add != 0) & int("rescale_add" not in extensions)):
        m.d.comb += expected.eq(FaultCode.OPCODE)
    with m.Elif((load.opcode == LOAD) & (load.memory_type > greatest)):
        m.d.comb += expected.eq(FaultCode.MEMORY_TYPE)
    with m.Elif((load.opcode == STORE) & (store.memory_type > greatest)):
        m.d.comb += expected.eq(FaultCode.MEMORY_TYPE)
    with m.Elif((load.opcode == ALU) & ~has_operation):
        m.d.comb += expected.eq(FaultCode.ALU_OPCODE)
    with m.Elif((load.opcode == LOAD) & (load.memory_type == OUT) & (load.x_size != 0)):
        m.d.comb += expected.eq(FaultCode.MEMORY_TYPE)
    with m.Elif((load.opcode == STORE) & (store.memory_type != OUT) & (store.x_size != 0)):
        m.d.comb += expected.eq(FaultCode.MEMORY_TYPE)
    with m.Elif((load.opcode == STORE) & padded & (store.x_size != 0)):
        m.d.comb += expected.eq(FaultCode.STORE_PADDING)
    # The load unit has no previous unit, and store no next one.
    with m.Elif((load.opcode == LOAD) & to_load & (load.pop_prev | load.push_prev)):
        m.d.comb += expected.eq(FaultCode.NO_NEIGHBOUR)
    with m.Elif((load.opcode == STORE) & (store.pop_next | store.push_next)):
        m.d.comb += expected.eq(FaultCode.NO_NEIGHBOUR)
    claim.always("the fault that the manual names, or none", decoder.fault == expected)


LOADED = Geometry(load_config("tiny")).loaded_by
TRANSFERS = {"load": (Opcode.LOAD, LOADED(Unit.LOAD)), "compute": (Opcode.LOAD, LOADED(Unit.COMPUTE))}
TRANSFERS |= {"store": (Opcode.STORE, STORE_MEMORIES)}


class Block:
    """The block of a LOAD or STORE; its numbers are wide enough for all field values."""

    def __init__(self, claim, rtl, name, unit):
        config = load_config(name)
        opcode, memories = TRANSFERS[unit]
        self.geometry = Geometry(config)
        port = CommandPort(Unit.LOAD)
        self.decoder = claim.about(rtl.TransferDecoder(self.geometry, opcode, memories, port))
        # Words advance as in a command queue; the stages are initially invalid.
        came: Value = Const(1)
        for stage in range(len(port.advance)):
            following = Signal(name=f"came{stage + 1}")
            with claim.m.If(port.advance[stage]):
                claim.m.d.sync += [port.words[stage + 1].eq(port.words[stage]), following.eq(came)]
            came = following
        self.decoded = came
        self.fields = fields = Fields(config, opcode, port.word)
        self.memories = memories
        self.transfer = self.decoder.transfer
        claim.assume(~came | (fields.opcode == opcode))
        known = Signal()
        for memory in memories:
            with claim.m.If(fields.memory_type == memory):
                claim.m.d.comb += known.eq(1)
        claim.assume(~came | known)  # fetch dispatches only these memory types to this unit
        self.width = fields.x_pad_0 + fields.x_size + fields.x_pad_1
        self.rows = fields.y_pad_0 + fields.y_size + fields.y_pad_1
        self.elements = Signal(40)
        claim.m.d.comb += self.elements.eq(self.rows * self.width)


units = pytest.mark.parametrize("unit", list(TRANSFERS))
sizes = pytest.mark.parametrize("name", ["tiny", pytest.param("vta", marks=pytest.mark.nightly)])
# By default only the load unit's decoder: the others follow the same rules for other memories, and are as slow.
blocks = pytest.mark.parametrize(
    ("name", "unit"),
    [
        ("tiny", "load"),
        pytest.param("tiny", "store", marks=pytest.mark.slow),
        *(
            pytest.param(*each, marks=pytest.mark.nightly)
            for each in (("tiny", "compute"), *(("vta", unit) for unit in TRANSFERS))
        ),
    ],
)


@pytest.mark.slow
@blocks
@proved(
    dma_descriptor,
    ("[ranges[kind] for", "[ranges[kind] & (fields.y_size != 1) for"),
    (
        "second.registered(ELEMENTS.name, ELEMENTS.evaluate(second), advance[1])",
        "second.registered(ELEMENTS.name, ELEMENTS.evaluate(second), advance[2])",
    ),
    ("with m.If(self.port.advance[2]):", "with m.If(self.port.advance[1]):"),
    depth=5,
)
def test_a_block_overruns_exactly_when_it_ends_beyond_its_scratchpad(claim, rtl, name, unit):
    block = Block(claim, rtl, name, unit)
    fields = block.fields
    for memory in block.memories:
        beyond = (fields.x_size != 0) & (fields.sram_base + block.elements > block.geometry.depth(memory))
        other = ~block.decoded | (fields.memory_type != memory)
        claim.always(f"a block of {memory.name}", other | (block.decoder.overruns == beyond))


@pytest.mark.slow
@blocks
@proved(
    dma_descriptor,
    ("value << self.geometry.shift(kind) for", "(value << self.geometry.shift(kind))[:9] for"),
    ("Mux(reads, fields.x_pad_0, below)", "fields.x_pad_0"),
    ("fields.x_pad_1 + below", "(fields.x_pad_1 + below)[:5]"),
    ("((fields.x_pad_0 == 0) & (fields.x_pad_1 == 0))", "1"),
    (
        'second.registered("above", fields.y_pad_0 * width, advance[1])',
        'second.registered("above", fields.y_pad_0 * width, advance[0])',
    ),
    ("Mux(merged, 1, fields.y_size), 0)", "fields.y_size, 0)"),
    depth=5,
)
def test_no_bit_of_a_transfer_within_its_scratchpad_is_truncated(claim, rtl, name, unit):
    block = Block(claim, rtl, name, unit)
    fields, transfer_ = block.fields, block.transfer
    fits = block.decoded & (fields.x_size != 0) & ~block.decoder.overruns
    one_chain = (fields.y_size == 1) | ((fields.x_stride == fields.x_size) & (fields.x_pad_0 + fields.x_pad_1 == 0))
    chain, below = Signal(40), Signal(40)
    claim.m.d.comb += [
        chain.eq(fields.x_size * Mux(one_chain, fields.y_size, 1)),
        below.eq(fields.y_pad_1 * block.width),
    ]
    reads = fits & (fields.y_size != 0)
    above = fields.y_pad_0 * block.width
    claim.always("padding before the first chain", ~reads | (transfer_.lead == above + fields.x_pad_0))
    claim.always("padding after the last one", ~reads | (transfer_.tail == fields.x_pad_1 + below))
    claim.always("padding without a chain", ~(fits & ~reads) | (transfer_.lead == above + below))
    moves = (fields.x_size != 0) & (fields.y_size != 0)
    chains = Mux(moves, Mux(one_chain, 1, fields.y_size), 0)
    claim.always("contiguous rows are one chain", ~block.decoded | (transfer_.chains == chains))
    claim.always("padding between chains", ~reads | (transfer_.gap == fields.x_pad_0 + fields.x_pad_1))
    nothing = (fields.x_size == 0) | (block.elements == 0)
    claim.always("whether a vector is moved", ~block.decoded | (transfer_.nothing == nothing))
    pushes = Cat(fields.push_prev, fields.push_next)
    claim.always("tokens to push", ~block.decoded | (transfer_.pushes == pushes))
    for memory in block.memories:
        this, shift = reads & (fields.memory_type == memory), block.geometry.shift(memory)
        claim.always(f"bytes of a chain of {memory.name}", ~this | (transfer_.chain_bytes == chain << shift))
        claim.always(f"first byte of {memory.name}", ~this | (transfer_.address == fields.dram_base << shift))
        claim.always(f"where {memory.name} begins", ~this | (transfer_.sram == fields.sram_base << shift))
        claim.always(f"from row to row of {memory.name}", ~this | (transfer_.stride_bytes == fields.x_stride << shift))


@pytest.mark.slow
@units
@sizes
@proved(
    dma_descriptor,
    ("descriptor.nothing.eq(~moves | (elements == 0))", "descriptor.nothing.eq(~moves)"),
    ('known["in_dram"], Mux(merged', "1, Mux(merged"),
    depth=5,
)
def test_a_transfer_within_its_scratchpad_satisfies_the_invariant_of_its_users(claim, rtl, name, unit):
    block = Block(claim, rtl, name, unit)
    fits = block.decoded & ~block.decoder.overruns
    claim.always("it has chains with bytes, or padding, or is nothing", ~fits | is_legal(block.transfer))
