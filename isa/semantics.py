"""Executable semantics of every instruction: the oracle for simulator and RTL.

It processes one micro-op and one row at a time and follows the machine description closely; the simulator has a fast
form, which is tested to be equivalent.
"""

from collections import deque
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
from numpy.typing import NDArray

from lathe.configs import HardwareConfig
from lathe.configs.encoding import INSTRUCTION_BYTES
from lathe.isa.arithmetic import wrap
from lathe.isa.constraints import DECODING, STARTING, Rule, require_legal
from lathe.isa.dispatch import Dispatch
from lathe.isa.errors import MachineFault
from lathe.isa.fault import FaultCode
from lathe.isa.instructions import (
    Finish,
    Instruction,
    Load,
    MicroOpInstruction,
    Store,
    describe_instruction,
    runs_micro_ops,
    unit_of,
)
from lathe.isa.launch_checks import NO_FINISH_MESSAGE, overflow_message, stream_write_message
from lathe.isa.microops import decode_uops
from lathe.isa.operands import Operand, cells_of, extra_latency, operands_by_issue_cycle, usage_of
from lathe.isa.sparse_memory import PagedMemory
from lathe.isa.table import MEMORIES, MOST_TOKENS, QUEUE_OF, MemoryType, TokenQueue, Unit
from lathe.isa.uop_semantics import UOP_SEMANTICS


@dataclass
class MachineState:
    """The architectural state of a machine. Scratchpads are zero until something is written.

    ``uop`` (uop_depth,) uint32; ``inp`` (inp_depth, batch, block_in) int8; ``wgt`` (wgt_depth, block_out, block_in)
    int8; ``acc`` (acc_depth, batch, block_out) int32; ``par`` (par_depth, block_out, 2) int32, bias and factor of each
    lane; ``lut`` (lut_depth, block_out) int8; ``tokens``: counts of the four queues in TokenQueue's order; ``stream``:
    the bytes [first, end) of DRAM that hold the stream, to which nothing may be stored.
    """

    config: HardwareConfig
    dram: PagedMemory
    tokens: list[int] = field(default_factory=lambda: [0, 0, 0, 0])
    finished: bool = False
    stream: tuple[int, int] = (0, 0)
    uop: NDArray[np.uint32] = field(init=False)
    inp: NDArray[np.int8] = field(init=False)
    wgt: NDArray[np.int8] = field(init=False)
    acc: NDArray[np.int32] = field(init=False)
    par: NDArray[np.int32] = field(init=False)
    lut: NDArray[np.int8] = field(init=False)

    def __post_init__(self) -> None:
        cfg = self.config
        self.uop = np.zeros(cfg.uop_depth, np.uint32)
        self.inp = np.zeros((cfg.inp_depth, cfg.batch, cfg.block_in), np.int8)
        self.wgt = np.zeros((cfg.wgt_depth, cfg.block_out, cfg.block_in), np.int8)
        self.acc = np.zeros((cfg.acc_depth, cfg.batch, cfg.block_out), np.int32)
        self.par = np.zeros((cfg.par_depth, cfg.block_out, 2), np.int32)
        self.lut = np.zeros((cfg.lut_depth, cfg.block_out), np.int8)

    @property
    def out(self) -> NDArray[np.int8]:
        """The out scratchpad: accumulators truncated to the output width, without saturation."""
        return np.asarray(wrap(self.acc, self.config.out_bits))


# The rules that do not concern tokens.
_WITHOUT_TOKENS = tuple(rule for rule in (*DECODING, *STARTING) if rule.code is not FaultCode.NO_NEIGHBOUR)


def run(state: MachineState, stream: Sequence[Instruction], insn_addr: int | None = None) -> None:
    """Execute a launch: fetch dispatches the stream to the units' queues, and units alternate as tokens allow.

    Among the units whose next instruction has its tokens, the one whose instruction is first in the stream proceeds,
    and fetch proceeds when there is none; for a stream without races the order does not matter. ``insn_addr`` is the
    byte address of the stream (None: it overlaps nothing that is stored to).

    Raises :class:`MachineFault` for what the machine does not execute, and for a launch that does not end. If a stream
    has several faults, a machine may report another one, since it reports the first in time.
    """
    if insn_addr is not None:
        state.stream = insn_addr, insn_addr + INSTRUCTION_BYTES * len(stream)
    units = [unit_of(instruction) for instruction in stream]
    queues: dict[Unit, deque[int]] = {unit: deque() for unit in Unit}
    dispatch = Dispatch(units, state.config.timing.command_queue_depth)
    while True:
        waiting = {unit: queue[0] for unit, queue in queues.items() if queue}
        ready = [unit for unit, index in waiting.items() if not _missing_tokens(state, stream[index])]
        if ready:
            unit = min(ready, key=lambda unit: waiting[unit])
            index = queues[unit].popleft()
            dispatch.start(unit)
            step(state, stream[index], index)
            continue
        index = dispatch.dispatched
        if index < len(stream):
            _require(state.config, stream[index], index, DECODING)
        if not dispatch.fetch():
            break
        queues[units[index]].append(index)
    if waiting:
        message = _deadlock(state, stream, waiting, dispatch)
        raise MachineFault(message, FaultCode.DEADLOCK, instruction=min(waiting.values()))
    if not state.finished:
        raise MachineFault(NO_FINISH_MESSAGE, FaultCode.NO_FINISH)


def step(state: MachineState, instruction: Instruction, index: int = 0) -> None:
    """Pop tokens, execute one instruction and push tokens. ``index`` is its index in the stream, for messages."""
    unit = unit_of(instruction)
    try:
        _require(state.config, instruction, index, DECODING)
        for name in ("pop_prev", "pop_next"):
            if getattr(instruction, name):
                state.tokens[QUEUE_OF[unit, name]] -= 1
        execute(state, instruction, describe_instruction(index, instruction))
        for name in ("push_prev", "push_next"):
            if getattr(instruction, name):
                queue = QUEUE_OF[unit, name]
                state.tokens[queue] += 1
                if state.tokens[queue] > MOST_TOKENS:
                    raise MachineFault(
                        overflow_message(queue, describe_instruction(index, instruction)), FaultCode.TOKEN_OVERFLOW
                    )
    except MachineFault as fault:
        fault.instruction = index
        raise


def execute(state: MachineState, instruction: Instruction, where: str = "the instruction") -> None:
    """Apply an instruction to the memories, without its tokens.

    Raises :class:`MachineFault` for an instruction that the machine refuses, and for faults during its execution.
    """
    require_legal(state.config, instruction, where, _WITHOUT_TOKENS)
    if runs_micro_ops(instruction):
        _micro_ops(state, instruction, where)
        return
    match instruction:
        case Load():
            _load(state, instruction)
        case Store():
            _store(state, instruction, where)
        case Finish():
            state.finished = True


def _require(config: HardwareConfig, instruction: Instruction, index: int, rules: Sequence[Rule]) -> None:
    try:
        require_legal(config, instruction, describe_instruction(index, instruction), rules)
    except MachineFault as fault:
        fault.instruction = index
        raise


def _load(state: MachineState, load: Load) -> None:
    if load.x_size == 0:  # Whatever the other fields hold; VTA's compiler emits such instructions to carry tokens.
        return
    memory = MEMORIES[load.memory_type]
    scratchpad = getattr(state, memory.scratchpad)
    element_bytes = memory.element_bytes(state.config)
    width = load.x_pad_0 + load.x_size + load.x_pad_1
    height = load.y_pad_0 + load.y_size + load.y_pad_1
    end = load.sram_base + width * height
    block = np.full((height, width, *scratchpad.shape[1:]), load.padding, scratchpad.dtype)
    for y in range(load.y_size):
        address = (load.dram_base + y * load.x_stride) * element_bytes
        row = _values(state.dram.read(address, load.x_size * element_bytes), load.memory_type)
        at = load.x_pad_0
        block[load.y_pad_0 + y, at : at + load.x_size] = row.reshape(load.x_size, *scratchpad.shape[1:])
    scratchpad[load.sram_base : end] = block.reshape(width * height, *scratchpad.shape[1:])


def _values(content: NDArray[np.uint8], memory_type: MemoryType) -> NDArray[Any]:
    """The values encoded by bytes of DRAM, little-endian."""
    dtype = {MemoryType.UOP: "<u4", MemoryType.ACC: "<i4", MemoryType.PAR: "<i4"}.get(memory_type, "i1")
    return content.view(dtype)


def _store(state: MachineState, store: Store, where: str) -> None:
    if store.x_size == 0:
        return
    element_bytes = state.config.out_element_bytes
    for y in range(store.y_size):
        first = store.sram_base + y * store.x_size
        address = (store.dram_base + y * store.x_stride) * element_bytes
        begin, end = state.stream
        if address < end and address + store.x_size * element_bytes > begin:
            raise MachineFault(stream_write_message(where, max(address, begin)), FaultCode.STREAM_WRITE)
        state.dram.write(address, wrap(state.acc[first : first + store.x_size], 8).reshape(-1).view(np.uint8))


def _micro_ops(state: MachineState, instruction: MicroOpInstruction, where: str) -> None:
    usage, value = usage_of(instruction), UOP_SEMANTICS[instruction.opcode].value
    for index in _iterations(state, instruction, where):
        elements = {each.index: getattr(state, each.scratchpad)[index[each.index]] for each in usage.read}
        elements |= {each.odd: getattr(state, each.scratchpad)[index[each.index] | 1] for each in usage.odd}
        elements |= {
            each.name: getattr(state, MEMORIES[each.memory].scratchpad)[cells_of(each, instruction)]
            for each in usage.blocks
        }
        state.acc[index[usage.written.index]] = value(instruction, elements)


def _iterations(state: MachineState, instruction: MicroOpInstruction, where: str) -> Iterator[dict[str, int]]:
    """For every executed micro-op, the vector of each operand that it uses, by the operand's index: dst, src, wgt."""
    usage = usage_of(instruction)
    operands = [(operand, *operand.factors_of(instruction)) for operand in usage.used]
    reuse = _Reuse(state.config, instruction)
    for outer in range(instruction.iter_out):
        for inner in range(instruction.iter_in):
            for number in range(instruction.uop_bgn, instruction.uop_end):
                dst, src, wgt = decode_uops(state.config, state.uop[number])
                uop = {"dst": int(dst), "src": int(src), "wgt": int(wgt)}
                at = {}
                for operand, factor_out, factor_in in operands:
                    name = operand.index
                    at[name] = uop[name] + outer * factor_out + inner * factor_in
                for accessed in operands_by_issue_cycle(usage):
                    for operand in accessed:
                        index = at[operand.index]
                        if index >= operand.depth(state.config):
                            raise MachineFault(operand.message(state.config, where, index), operand.code)
                    reuse.step(accessed, at, where)
                reuse.write(at[usage.written.index])
                yield at


class _Reuse:
    """Detector of read-after-write hazards in an instruction whose results have extra latency."""

    def __init__(self, config: HardwareConfig, instruction: MicroOpInstruction) -> None:
        self.stages = extra_latency(config, instruction.opcode)
        self.read = usage_of(instruction).read
        self.late: deque[int | None] = deque(maxlen=self.stages)  # vectors that the last issue cycles write, or None

    def step(self, accessed: Sequence[Operand], indices: Mapping[str, int], where: str) -> None:
        """The next issue cycle, with the operands that it accesses."""
        for operand in accessed:
            at = indices[operand.index]
            if operand.memory is MemoryType.ACC and operand in self.read and at in self.late:
                raise MachineFault(operand.hazard_message(self.stages, where, at), FaultCode.ACC_REUSE)
        self.late.append(None)

    def write(self, at: int) -> None:
        """The vector that the last issue cycle writes."""
        if self.late:
            self.late[-1] = at


def _missing_tokens(state: MachineState, instruction: Instruction) -> list[TokenQueue]:
    """The empty queues that an instruction pops."""
    unit = unit_of(instruction)
    pops = (QUEUE_OF[unit, name] for name in ("pop_prev", "pop_next") if getattr(instruction, name))
    return [queue for queue in pops if state.tokens[queue] == 0]


def _deadlock(state: MachineState, stream: Sequence[Instruction], waiting: dict[Unit, int], dispatch: Dispatch) -> str:
    waits = [
        f"{unit.name.lower()} waits with instruction {index} ({stream[index].opcode.name}) for a token in "
        + " and ".join(queue.arrow for queue in _missing_tokens(state, stream[index]))
        for unit, index in waiting.items()
    ]
    if dispatch.waits:
        index = dispatch.dispatched
        queue = unit_of(stream[index]).name.lower()
        waits.append(
            f"fetch waits with instruction {index} ({stream[index].opcode.name}) for space in the {queue} queue"
        )
    return f"The launch must end, but is deadlocked: {'; '.join(waits)}. Every pop requires an earlier push."
