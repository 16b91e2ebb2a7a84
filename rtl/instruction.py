"""Instruction words: their fields and the decoder that selects a unit, both generated from the table of lathe.isa."""

from collections.abc import Callable, Mapping
from types import MappingProxyType
from typing import Any

from amaranth import Elaboratable, Module, Signal
from amaranth.hdl import Shape, Value
from amaranth.lib import data

from lathe.configs import HardwareConfig
from lathe.configs.encoding import INSTRUCTION_BITS, UOP_BITS, Placement
from lathe.isa.constraints import DECODING, WORDS
from lathe.isa.table import MEMORIES, TABLE, Kind, MemoryType, Opcode, Unit, instructions_of, placements, uop_placements
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
    """The fields of an instruction word, interpreted as an instruction with this opcode."""
    return data.View(_layout(INSTRUCTION_BITS, dict(placements(config, opcode))), word)


def issued(config: HardwareConfig) -> tuple[Opcode, ...]:
    """The instructions of a machine that run micro-ops."""
    return tuple(opcode for opcode in instructions_of(config) if TABLE[opcode].kind is Kind.ISSUE)


def uop_view(config: HardwareConfig, word: Any) -> Any:
    """The fields of a micro-op word."""
    return data.View(_layout(UOP_BITS, dict(uop_placements(config))), word)


class WordReader:
    """Reads the fields of an instruction word as those of an opcode, so that expressions of lathe.isa become logic.

    A named expression becomes one signal in `m`, however often it is used.
    """

    def __init__(self, m: Module, config: HardwareConfig, opcode: Opcode, word: Signal) -> None:
        self.config = config
        self.view = instruction_view(config, opcode, word)
        self._m = m
        self._named: dict[str, Signal] = {}

    def field(self, name: str) -> Any:
        """The bits of a field."""
        return self.view[name]

    def named(self, name: str, value: Callable[[], Value]) -> Signal:
        """The signal of a named expression."""
        if name not in self._named:
            expression = value()
            self._named[name] = Signal(expression.shape(), name=name)
            self._m.d.comb += self._named[name].eq(expression)
        return self._named[name]


class StageReader(WordReader):
    """Reads the word in one decode stage of a command port; `known` are named values from earlier stages."""

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
        """A register that holds a value in the next stage."""
        register = Signal(value.shape(), name=f"{name}_later", reset_less=True)
        with self._m.If(advance):
            self._m.d.sync += register.eq(value)
        return register


class Decoder(Elaboratable):
    """The unit that executes a word, and its fault, if it is illegal whatever the data."""

    def __init__(self, config: HardwareConfig) -> None:
        self.config = config
        self.word = Signal(INSTRUCTION_BITS)
        self.unit = Signal(Unit)
        self.fault = fault_signal()

    def elaborate(self, _platform: object) -> Module:
        m = Module()
        readers = {opcode: WordReader(m, self.config, opcode, self.word) for opcode in Opcode}
        # The first broken rule gives the fault, hence the reverse order: the last active assignment wins.
        for rule in reversed((*WORDS, *DECODING)):
            reader = readers[Opcode.FINISH if rule.opcode is None else rule.opcode]
            with m.If(rule.condition.evaluate(reader)):
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
