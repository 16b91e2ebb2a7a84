"""What every instruction means, as a program that carries it out: the oracle for simulator and RTL.

It is written to be read beside the machine page, one micro-op and one row at a time; the simulator has the fast form
and is tested equal to this one.
"""

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lathe.configs import HardwareConfig
from lathe.isa.arithmetic import add, alu, wrap
from lathe.isa.errors import MachineFault
from lathe.isa.fault import FaultCode
from lathe.isa.instructions import Alu, Finish, Gemm, Instruction, Load, Store, unit_of
from lathe.isa.microops import decode_uops
from lathe.isa.paged_memory import PagedMemory
from lathe.isa.table import MEMORIES, QUEUE_OF, MemoryType, TokenQueue, Unit


@dataclass
class MachineState:
    """Everything that a machine remembers between instructions. Scratchpads are zero until something is written.

    ``uop`` (uop_depth,) uint32; ``inp`` (inp_depth, batch, block_in) int8; ``wgt`` (wgt_depth, block_out, block_in)
    int8; ``acc`` (acc_depth, batch, block_out) int32; ``tokens``: counts of the four queues in TokenQueue's order.
    """

    config: HardwareConfig
    dram: PagedMemory
    tokens: list[int] = field(default_factory=lambda: [0, 0, 0, 0])
    finished: bool = False
    uop: NDArray[np.uint32] = field(init=False)
    inp: NDArray[np.int8] = field(init=False)
    wgt: NDArray[np.int8] = field(init=False)
    acc: NDArray[np.int32] = field(init=False)

    def __post_init__(self) -> None:
        cfg = self.config
        self.uop = np.zeros(cfg.uop_depth, np.uint32)
        self.inp = np.zeros((cfg.inp_depth, cfg.batch, cfg.block_in), np.int8)
        self.wgt = np.zeros((cfg.wgt_depth, cfg.block_out, cfg.block_in), np.int8)
        self.acc = np.zeros((cfg.acc_depth, cfg.batch, cfg.block_out), np.int32)

    @property
    def out(self) -> NDArray[np.int8]:
        """The out view: accumulators cut to the output width, without saturation."""
        return np.asarray(wrap(self.acc, self.config.out_bits))


def run(state: MachineState, stream: Sequence[Instruction]) -> None:
    """Carry out a launch: fetch puts the stream into the units' queues, and units take turns as tokens allow.

    Of the units whose next instruction has its tokens, the one whose instruction stands first in the stream goes on;
    for a stream without races the choice makes no difference. Raises :class:`MachineFault` for what the machine does
    not carry out and for a launch that does not end.
    """
    queues: dict[Unit, list[int]] = {unit: [] for unit in Unit}
    for index, instruction in enumerate(stream):
        queues[unit_of(instruction)].append(index)
    position = dict.fromkeys(Unit, 0)
    while True:
        waiting = {unit: queues[unit][position[unit]] for unit in Unit if position[unit] < len(queues[unit])}
        ready = [unit for unit, index in waiting.items() if not _missing_tokens(state, stream[index])]
        if not ready:
            break
        unit = min(ready, key=lambda unit: waiting[unit])
        step(state, stream[waiting[unit]], waiting[unit])
        position[unit] += 1
    if waiting:
        raise MachineFault(_deadlock(state, stream, waiting), FaultCode.DEADLOCK)
    if not state.finished:
        message = "The stream must have a FINISH, and has none: the launch never ends. Add a FINISH."
        raise MachineFault(message, FaultCode.NO_FINISH)


def step(state: MachineState, instruction: Instruction, index: int = 0) -> None:
    """Pop tokens, carry out one instruction and push tokens. ``index`` is its place in the stream, for messages."""
    unit = unit_of(instruction)
    where = f"instruction {index} ({instruction.opcode.name} in {unit.name.lower()})"
    try:
        for name in ("pop_prev", "pop_next"):
            if getattr(instruction, name):
                state.tokens[_queue(unit, name, where)] -= 1
        execute(state, instruction, where)
        for name in ("push_prev", "push_next"):
            if getattr(instruction, name):
                state.tokens[_queue(unit, name, where)] += 1
    except MachineFault as fault:
        fault.instruction = index
        raise


def execute(state: MachineState, instruction: Instruction, where: str = "the instruction") -> None:
    """Carry out what an instruction does to memories, without its tokens."""
    match instruction:
        case Load():
            _load(state, instruction, where)
        case Store():
            _store(state, instruction, where)
        case Gemm():
            _gemm(state, instruction, where)
        case Alu():
            _alu(state, instruction, where)
        case Finish():
            state.finished = True


def _load(state: MachineState, load: Load, where: str) -> None:
    if load.x_size == 0:  # Whatever the other fields hold; VTA's compiler makes such instructions to carry tokens.
        return
    if load.memory_type == MemoryType.OUT:
        message = f"memory_type of {where} must be uop, wgt, inp, acc or acc8, not out. No unit loads out."
        raise MachineFault(message, FaultCode.MEMORY_TYPE)
    memory = MEMORIES[load.memory_type]
    scratchpad = getattr(state, memory.scratchpad)
    element_bytes = memory.element_bytes(state.config)
    width = load.x_pad_0 + load.x_size + load.x_pad_1
    height = load.y_pad_0 + load.y_size + load.y_pad_1
    end = load.sram_base + width * height
    _require_below(end - 1, len(scratchpad), f"last {memory.scratchpad} element", where, FaultCode.SRAM_RANGE)
    block = np.full((height, width, *scratchpad.shape[1:]), load.padding, scratchpad.dtype)
    for y in range(load.y_size):
        address = (load.dram_base + y * load.x_stride) * element_bytes
        row = _elements(state.dram.read(address, load.x_size * element_bytes), load.memory_type)
        at = load.x_pad_0
        block[load.y_pad_0 + y, at : at + load.x_size] = row.reshape(load.x_size, *scratchpad.shape[1:])
    scratchpad[load.sram_base : end] = block.reshape(width * height, *scratchpad.shape[1:])


def _elements(content: NDArray[np.uint8], memory_type: MemoryType) -> NDArray[Any]:
    """The values that bytes of DRAM hold, little-endian."""
    dtype = {MemoryType.UOP: "<u4", MemoryType.ACC: "<i4"}.get(memory_type, "i1")
    return content.view(dtype)


def _store(state: MachineState, store: Store, where: str) -> None:
    if store.x_size == 0:
        return
    if store.memory_type != MemoryType.OUT:
        raise MachineFault(
            f"memory_type of {where} must be out, not {store.memory_type.name.lower()}. STORE takes no other.",
            FaultCode.MEMORY_TYPE,
        )
    for name in ("y_pad_0", "y_pad_1", "x_pad_0", "x_pad_1"):
        if getattr(store, name):
            message = f"{name} of {where} must be 0, not {getattr(store, name)}. STORE has no padding."
            raise MachineFault(message, FaultCode.STORE_PADDING)
    end = store.sram_base + store.y_size * store.x_size
    _require_below(end - 1, state.config.out_depth, "last out element", where, FaultCode.SRAM_RANGE)
    element_bytes = state.config.out_element_bytes
    for y in range(store.y_size):
        first = store.sram_base + y * store.x_size
        address = (store.dram_base + y * store.x_stride) * element_bytes
        state.dram.write(address, wrap(state.acc[first : first + store.x_size], 8).reshape(-1).view(np.uint8))


def _gemm(state: MachineState, gemm: Gemm, where: str) -> None:
    for uop, outer, inner in _iterations(state, gemm, where):
        dst = uop[0] + outer * gemm.dst_factor_out + inner * gemm.dst_factor_in
        _require_below(dst, len(state.acc), "acc element dst", where, FaultCode.ACC_RANGE)
        if gemm.reset:
            state.acc[dst] = 0
            continue
        src = uop[1] + outer * gemm.src_factor_out + inner * gemm.src_factor_in
        wgt = uop[2] + outer * gemm.wgt_factor_out + inner * gemm.wgt_factor_in
        _require_below(src, len(state.inp), "inp element src", where, FaultCode.INP_RANGE)
        _require_below(wgt, len(state.wgt), "wgt element wgt", where, FaultCode.WGT_RANGE)
        product = state.inp[src].astype(np.int32) @ state.wgt[wgt].astype(np.int32).T
        state.acc[dst] = add(state.acc[dst], product)


def _alu(state: MachineState, instruction: Alu, where: str) -> None:
    for uop, outer, inner in _iterations(state, instruction, where):
        dst = uop[0] + outer * instruction.dst_factor_out + inner * instruction.dst_factor_in
        _require_below(dst, len(state.acc), "acc element dst", where, FaultCode.ACC_RANGE)
        if instruction.use_imm:
            operand = np.asarray(instruction.imm)
        else:
            src = uop[1] + outer * instruction.src_factor_out + inner * instruction.src_factor_in
            _require_below(src, len(state.acc), "acc element src", where, FaultCode.ACC_RANGE)
            operand = state.acc[src]
        state.acc[dst] = alu(instruction.alu_opcode, state.acc[dst], operand)


def _iterations(
    state: MachineState, instruction: Gemm | Alu, where: str
) -> Iterator[tuple[tuple[int, int, int], int, int]]:
    """Every run of a micro-op: its (dst, src, wgt), and the indices of the outer and the inner loop."""
    for outer in range(instruction.iter_out):
        for inner in range(instruction.iter_in):
            for index in range(instruction.uop_bgn, instruction.uop_end):
                _require_below(index, len(state.uop), "micro-op", where, FaultCode.UOP_RANGE)
                dst, src, wgt = decode_uops(state.config, state.uop[index])
                yield (int(dst), int(src), int(wgt)), outer, inner


def _require_below(index: int, depth: int, what: str, where: str, code: FaultCode) -> None:
    if index >= depth:
        raise MachineFault(f"{what} of {where} must be below {depth}, not {index}. The scratchpad ends there.", code)


def _queue(unit: Unit, name: str, where: str) -> TokenQueue:
    queue = QUEUE_OF.get((unit, name))
    if queue is None:
        message = f"{name} of {where} must be 0, not 1. The unit has no neighbour on that side."
        raise MachineFault(message, FaultCode.NO_NEIGHBOUR)
    return queue


def _missing_tokens(state: MachineState, instruction: Instruction) -> list[TokenQueue]:
    """The queues that an instruction pops and that are empty; a pop that names no neighbour is left to fault."""
    unit = unit_of(instruction)
    pops = (QUEUE_OF.get((unit, name)) for name in ("pop_prev", "pop_next") if getattr(instruction, name))
    return [queue for queue in pops if queue is not None and state.tokens[queue] == 0]


def _deadlock(state: MachineState, stream: Sequence[Instruction], waiting: dict[Unit, int]) -> str:
    waits = "; ".join(
        f"{unit.name.lower()} waits with instruction {index} ({stream[index].opcode.name}) for a token of "
        + " and ".join(queue.arrow for queue in _missing_tokens(state, stream[index]))
        for unit, index in waiting.items()
    )
    return f"The launch must end, and is deadlocked: {waits}. Every pop needs a push before it."
