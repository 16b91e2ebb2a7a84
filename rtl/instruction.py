"""Instruction words: their fields, and the decoder that sends them to a unit; both made from the isa's table."""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from amaranth import Elaboratable, Module, Signal
from amaranth.hdl import Shape, Value
from amaranth.lib import data

from lathe.configs import HardwareConfig
from lathe.configs.encoding import INSTRUCTION_BITS, UOP_BITS, Placement
from lathe.isa.constraints import DECODING, WORDS
from lathe.isa.table import (
    MEMORIES,
    TABLE,
    Kind,
    MemoryType,
    Opcode,
    Unit,
    instructions_of,
    placements,
    uop_placements,
)
from lathe.rtl.fault import fault_signal


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


def issued(config: HardwareConfig) -> tuple[Opcode, ...]:
    """The instructions of a machine that run micro-ops."""
    return tuple(opcode for opcode in instructions_of(config) if TABLE[opcode].kind is Kind.ISSUE)


def uop_view(config: HardwareConfig, word: Any) -> Any:
    """The fields of a micro-op word."""
    return data.View(_layout(UOP_BITS, dict(uop_placements(config))), word)


class WordReader:
    """Reads the fields of an instruction word as those of an opcode, so that the isa's expressions become gates.

    An expression that has a name becomes one signal in `m`, however often it is asked for.
    """

    def __init__(self, m: Module, config: HardwareConfig, opcode: Opcode, word: Signal) -> None:
        self.config = config
        self.view = instruction_view(config, opcode, word)
        self._m = m
        self._named: dict[str, Signal] = {}

    def field(self, name: str) -> Any:
        """The field's bits."""
        return self.view[name]

    def named(self, name: str, value: Callable[[], Value]) -> Signal:
        """The signal of that name."""
        if name not in self._named:
            made = value()
            self._named[name] = Signal(made.shape(), name=name)
            self._m.d.comb += self._named[name].eq(made)
        return self._named[name]


class StageReader(WordReader):
    """Reads the word that is in one stage of a command port, with what stages before have `known` of it by name."""

    def __init__(
        self,
        m: Module,
        config: HardwareConfig,
        opcode: Opcode,
        word: Signal,
        known: Mapping[str, Signal] = MappingProxyType({}),
    ) -> None:
        super().__init__(m, config, opcode, word)
        self._named |= known

    def registered(self, name: str, value: Value, advance: Value) -> Signal:
        """A value that moves on to the next stage, as a signal there."""
        register = Signal(value.shape(), name=f"{name}_later", reset_less=True)
        with self._m.If(advance):
            self._m.d.sync += register.eq(value)
        return register


class Decoder(Elaboratable):
    """The unit that executes a word, and what is wrong with it, if anything, whatever the data."""

    def __init__(self, config: HardwareConfig) -> None:
        self.config = config
        self.word = Signal(INSTRUCTION_BITS)
        self.unit = Signal(Unit)
        self.fault = fault_signal()

    def elaborate(self, _platform: object) -> Module:
        m = Module()
        readers = {opcode: WordReader(m, self.config, opcode, self.word) for opcode in Opcode}
        # Of the rules that a word breaks, the first is told: the last assignment that is active wins.
        for rule in reversed((*WORDS, *DECODING)):
            reader = readers[Opcode.FINISH if rule.opcode is None else rule.opcode]
            with m.If(rule.condition.on(reader)):
                m.d.comb += self.fault.eq(rule.code)
        with m.Switch(readers[Opcode.FINISH].view.opcode):
            for opcode, row in TABLE.items():
                with m.Case(opcode):
                    if row.unit is not None:
                        m.d.comb += self.unit.eq(row.unit)
                        continue
                    with m.Switch(readers[opcode].view.memory_type):
                        for memory in MemoryType:
                            with m.Case(memory):
                                m.d.comb += self.unit.eq(MEMORIES[memory].load_unit)
        return m
