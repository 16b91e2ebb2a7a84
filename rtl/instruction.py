"""Instruction words: their fields, and the decoder that sends them to a unit; both made from the isa's table."""

from typing import Any

from amaranth import Elaboratable, Module, Signal
from amaranth.hdl import Shape
from amaranth.lib import data

from lathe.configs import HardwareConfig
from lathe.configs.encoding import INSTRUCTION_BITS, UOP_BITS, Placement
from lathe.isa.table import (
    MEMORIES,
    QUEUE_OF,
    TOKEN_FIELDS,
    AluOp,
    MemoryType,
    Opcode,
    Unit,
    placements,
    uop_placements,
)
from lathe.rtl.fault import FaultCode, fault_signal

# Who executes an instruction, where the opcode alone tells it.
UNIT_OF = {Opcode.STORE: Unit.STORE, Opcode.GEMM: Unit.COMPUTE, Opcode.ALU: Unit.COMPUTE, Opcode.FINISH: Unit.COMPUTE}


def _layout(size: int, fields: dict[str, Placement]) -> data.FlexibleLayout:
    return data.FlexibleLayout(
        size,
        {
            name: data.Field(Shape(placement.width, placement.field.signed and placement.width > 0), placement.lsb)
            for name, placement in fields.items()
        },
    )


def instruction_view(config: HardwareConfig, opcode: Opcode, word: Any) -> Any:
    """The fields of an instruction word, read as an instruction with the given opcode."""
    return data.View(_layout(INSTRUCTION_BITS, dict(placements(config, opcode))), word)


def uop_view(config: HardwareConfig, word: Any) -> Any:
    """The fields of a micro-op word."""
    return data.View(_layout(UOP_BITS, dict(uop_placements(config))), word)


class Decoder(Elaboratable):
    """The unit that executes a word, and what is wrong with it, if anything, whatever the data."""

    def __init__(self, config: HardwareConfig) -> None:
        self.config = config
        self.word = Signal(INSTRUCTION_BITS)
        self.unit = Signal(Unit)
        self.fault = fault_signal()

    def elaborate(self, _platform: object) -> Module:
        m = Module()
        config = self.config
        fault = fault_signal()
        load = instruction_view(config, Opcode.LOAD, self.word)
        with m.Switch(load.opcode):
            with m.Case(Opcode.LOAD), m.Switch(load.memory_type):
                for memory in MemoryType:
                    with m.Case(memory):
                        m.d.comb += self.unit.eq(MEMORIES[memory].load_unit)
                        if memory is MemoryType.OUT:
                            with m.If(load.x_size != 0):
                                m.d.comb += fault.eq(FaultCode.MEMORY_TYPE)
                with m.Default():
                    m.d.comb += [self.unit.eq(Unit.LOAD), fault.eq(FaultCode.MEMORY_TYPE)]
            for opcode, unit in UNIT_OF.items():
                with m.Case(opcode):
                    m.d.comb += self.unit.eq(unit)
                    if opcode is Opcode.STORE:
                        self._store(m, fault)
                    elif opcode is Opcode.ALU:
                        alu = instruction_view(config, Opcode.ALU, self.word)
                        with m.If(alu.alu_opcode > max(AluOp)):
                            m.d.comb += fault.eq(FaultCode.ALU_OPCODE)
            with m.Default():
                m.d.comb += fault.eq(FaultCode.OPCODE)
        m.d.comb += self.fault.eq(fault)
        with m.If(fault == FaultCode.NONE), m.Switch(self.unit):
            for unit in Unit:
                with m.Case(unit):
                    for name in TOKEN_FIELDS:
                        if (unit, name) not in QUEUE_OF:
                            with m.If(load[name]):
                                m.d.comb += self.fault.eq(FaultCode.NO_NEIGHBOUR)
        return m

    def _store(self, m: Module, fault: Signal) -> None:
        store = instruction_view(self.config, Opcode.STORE, self.word)
        padded = store.y_pad_0.any() | store.y_pad_1.any() | store.x_pad_0.any() | store.x_pad_1.any()
        with m.If(store.memory_type > max(MemoryType)):
            m.d.comb += fault.eq(FaultCode.MEMORY_TYPE)
        with m.Elif(store.x_size != 0):
            with m.If(store.memory_type != MemoryType.OUT):
                m.d.comb += fault.eq(FaultCode.MEMORY_TYPE)
            with m.Elif(padded):
                m.d.comb += fault.eq(FaultCode.STORE_PADDING)
