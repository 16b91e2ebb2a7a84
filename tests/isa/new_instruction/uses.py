"""Use CLIP in the tools that it was added to: instruction selection, results, cycles, findings and faults.

Run by ``test_new_instruction.py`` in a copy of the source tree; it prints what the test compares.
"""

from dataclasses import replace

import numpy as np
from amaranth.sim import Simulator

import lathe as lt
from lathe.builder import build
from lathe.configs.instructions.clip import Clip
from lathe.isa import (
    Alu,
    AluOp,
    Finish,
    Gemm,
    MemoryType,
    Opcode,
    PagedMemory,
    decode,
    encode,
    encode_uops,
    instruction_text,
)
from lathe.isa.manual import manual
from lathe.isa.semantics import MachineState, execute
from lathe.rtl.fault import FaultCode
from lathe.rtl.instruction import Decoder
from lathe.scheduler import vectors
from lathe.scheduler.stream.elide_accumulator_init import dead_resets
from lathe.sim import executor
from lathe.sim.dram import SparseMemory
from lathe.sim.scratchpads import Scratchpads

PLAIN = lt.load_config("tiny")
CONFIG = PLAIN.with_(name="clipping", extensions=("clip",))
LOW, HIGH = -5, 9


def clipped(chunk, high):
    """``B[i] = min(max(A[i], LOW), high)`` on whole vectors of accumulators."""
    view = vectors(chunk)
    count = 1
    for loop in view.loops:
        count *= view.extents[loop]
    uop = np.array([view.write.base]), np.array([view.reads[0].base]), np.array([0])
    first, end, loads = chunk.emitter.pool.place(*uop)
    return [
        *loads,
        Gemm(first, end, 1, count, 0, 1, 0, 0, 0, 0, reset=True),
        Alu(AluOp.ADD, first, end, 1, count, 0, 1, 0, 1),
        Clip(first, end, 1, count, 0, 1, LOW, high),
    ]


@lt.emit_rule("clip")
def clip(chunk):
    """A rule that selects CLIP with the correct bounds."""
    return clipped(chunk, HIGH)


@lt.emit_rule("clip_wrongly")
def clip_wrongly(chunk):
    """A rule with a wrong upper bound."""
    return clipped(chunk, HIGH + 1)


def compiled(rule):
    """Build and validate the program of a schedule with a rule."""
    s = lt.create_schedule(B)
    result = s.cache_write(B, "acc")
    s.cache_read(A, "acc", [result])
    s[result].emit_insn(s[result].axis[0], rule)
    return build(s, [A, B], CONFIG, check=True)


def show(heading, lines):
    print(f"{heading}:", *lines, sep="\n  ")


# The compiler: a rule that emits CLIP, tokens and footprints, and translation validation.
A = lt.placeholder((12 * CONFIG.block_out,), "int8", name="A")
B = lt.compute(A.shape, lambda i: lt.min(lt.max(A[i], LOW), HIGH).astype("int8"), name="B")
program = compiled("clip")
(position,) = (index for index, each in enumerate(program.instructions) if each.opcode is Opcode.CLIP)
show("assembly", [instruction_text(program.instructions[position])])

try:
    compiled("clip_wrongly")
except lt.LatheError as error:
    mentions = [each for each in ("clip uop_bgn=0", "high=10", "B.acc[0] = 9", "not 10") if each in str(error)]
    show("validation", [type(error).__name__, *mentions])

# The load of its micro-ops remains, even if a reset that also used them is removed.
reset = Gemm(0, 2, 1, 1, 0, 0, 0, 0, 0, 0, reset=True)
assert dead_resets([lt.Load(MemoryType.UOP, 0, 0, 1, 2, 2), reset, Clip(1, 2, 1, 1, 0, 0, LOW, HIGH)], {1}) == {1}

# Encoder, decoder, assembler and manual.
stream = list(program.instructions)
assert decode(CONFIG, encode(CONFIG, stream)) == stream
assert lt.assemble(CONFIG, lt.disassemble(CONFIG, stream)).instructions == stream
show("manual", [line for line in manual().splitlines() if "clip" in line.lower() and not line.startswith("|")])

# The simulator: bits as in NumPy, and counters; a micro-op issues in one cycle, like ALU with an immediate.
data = {"A": np.random.default_rng(0).integers(-128, 128, A.shape, np.int8)}
run = lt.simulate(program, data)
assert np.array_equal(run.outputs["B"], lt.reference(B, data))
show("operations", [f"{name}: {count}" for name, count in run.counters.alu_operations_of.items() if count])
LOOPS = ("uop_bgn", "uop_end", "iter_out", "iter_in", "dst_factor_out", "dst_factor_in")
TOKENS = ("pop_prev", "pop_next", "push_prev", "push_next")
loops = {name: getattr(stream[position], name) for name in (*LOOPS, *TOKENS)}

# The RTL: the same bits, cycles and counters.
on_rtl = lt.simulate(program, data, engine="pysim")
assert np.array_equal(on_rtl.outputs["B"], run.outputs["B"])
assert (on_rtl.cycles, on_rtl.counters) == (run.cycles, run.counters)
stream[position] = Alu(AluOp.MAX, src_factor_out=0, src_factor_in=0, use_imm=True, imm=0, **loops)
assert lt.simulate(replace(program, instructions=stream), data).cycles == run.cycles
stream = list(program.instructions)

# The verifier.
assert lt.verify(program) == []
beyond = replace(stream[position], iter_in=1, dst_factor_in=0, iter_out=CONFIG.acc_depth + 1, dst_factor_out=1)
quiet = dict.fromkeys(TOKENS, False)
micro_ops = [each for each in stream[:position] if isinstance(each, lt.Load) and each.memory_type == MemoryType.UOP]
alone = [replace(each, **quiet) for each in (*micro_ops, beyond)]
labels = np.zeros(len(alone) + 1, np.int32)
findings = lt.verify(replace(program, instructions=[*alone, Finish()], label_of=labels))
show("verifier", [f"{each.kind.name}: {each.field} of {each.text}, {each.cell}" for each in findings])
try:
    lt.simulate(replace(program, config=PLAIN), data)
except lt.MachineFault as fault:
    mentions = [each for each in ("not CLIP", "tiny", "extension 'clip'") if each in str(fault)]
    show("without the extension", [f"{fault.code.name} at instruction {fault.instruction}", *mentions])

# The reference semantics and the simulator, on micro-ops that update an accumulator several times.
uops = encode_uops(CONFIG, [3, 1, 3, 2], [0] * 4, [0] * 4)
once = Clip(0, 4, 2, 3, 5, 1, -100, 1000)
state = MachineState(CONFIG, PagedMemory())
pads = Scratchpads(CONFIG)
state.uop[:4] = pads.uop[:4, 0] = uops
values = np.random.default_rng(1).integers(-(1 << 31), 1 << 31, state.acc.shape, np.int32)
state.acc[:] = values
pads.acc[:] = values.reshape(pads.acc.shape)
execute(state, once)
executor.execute(CONFIG, [once], [0], pads, SparseMemory())
assert np.array_equal(state.acc.reshape(pads.acc.shape), pads.acc)
assert not np.array_equal(state.acc, values)

# The decoder in hardware.
for config in (CONFIG, PLAIN):
    decoder = Decoder(config)
    word = int.from_bytes(encode(CONFIG, [once]).tobytes(), "little")

    async def bench(ctx, decoder=decoder, word=word, config=config):
        ctx.set(decoder.word, word)
        show(f"decoder of {config.name}", [f"{ctx.get(decoder.unit)!r} {FaultCode(ctx.get(decoder.fault)).name}"])

    simulator = Simulator(decoder)
    simulator.add_testbench(bench)
    simulator.run()
