"""The functional unit of RESCALE: scales every value, and optionally replaces it by a table entry."""

from typing import Any

from amaranth import Cat, Elaboratable, Module, Mux, Signal, signed
from amaranth.hdl import Value
from amaranth.lib import data

from lathe.configs.memory import LOOKUP_STAGES, RESCALE_STAGES
from lathe.isa.table import MemoryType, Opcode
from lathe.rtl.derived_widths import Geometry
from lathe.rtl.execute_stage import ExecuteStage
from lathe.rtl.pipeline_payload import travelling
from lathe.rtl.ram import replicated
from lathe.rtl.rounding import RESULT_BITS, SHIFT_BITS
from lathe.rtl.scaling import MANTISSA_BITS, SUM, VALUE_BITS, Scaling
from lathe.rtl.scratchpad import LookupTables
from lathe.rtl.stall import delayed
from lathe.rtl.struct_signal import structured
from lathe.rtl.write_hazards import CHECK

BYTE = 8
PARAMETERS = data.StructLayout({"bias": signed(VALUE_BITS), "shift": SHIFT_BITS, "mantissa": signed(MANTISSA_BITS)})
"""The parameters of a lane in the scratchpad par."""


class Rescale(Elaboratable):
    """`result` = what a RESCALE with `fields` writes for `value` and `parameters`, value by value.

    `take` in cycle t takes them; with `first`, they are the operand that the next step adds. The result comes as many
    cycles later as the instruction has trailing steps, in the slot of the step issued so much later. One register holds
    the fields for all stages, since no other instruction begins until all results are out.
    """

    def __init__(self, geometry: Geometry, tables: LookupTables | None) -> None:
        config = geometry.config
        self.tables = tables
        self.lanes, self.values = config.block_out, config.batch * config.block_out
        self.take = Signal()
        self.first = Signal()
        self.fields = structured(data.StructLayout(travelling(config, Opcode.RESCALE)))
        self.value = Signal(self.values * VALUE_BITS)
        self.parameters = Signal(self.lanes * PARAMETERS.size)
        self.result = Signal(self.values * VALUE_BITS)

    def elaborate(self, _platform: object) -> Module:
        m = Module()
        fields = structured(self.fields.shape(), name="fields_now", reset=False)
        with m.If(self.take):
            m.d.sync += fields.eq(self.fields)
        valid: list[Value] = [self.take]
        for _ in range(RESCALE_STAGES):
            valid += delayed(m, 1, valid[-1])
        (first,) = delayed(m, SUM, self.first, reset=False)
        low, high, zero_point = self._bounds(m, fields)
        scaled: list[Value] = []
        for number in range(self.values):
            m.submodules[f"scaling{number}"] = scaling = Scaling()
            parameters = data.View(PARAMETERS, self.parameters.word_select(number % self.lanes, PARAMETERS.size))
            m.d.comb += [
                scaling.valid.eq(Cat(*valid[:RESCALE_STAGES])),
                scaling.value.eq(self.value.word_select(number, VALUE_BITS)),
                scaling.bias.eq(parameters.bias),
                scaling.shift.eq(parameters.shift),
                scaling.mantissa.eq(parameters.mantissa),
                scaling.adds.eq(fields.add & ~first),
                scaling.zero_point.eq(zero_point),
                scaling.low.eq(low),
                scaling.high.eq(high),
            ]
            scaled.append(scaling.result)
        results = scaled
        if self.tables is not None:
            results = self._looked_up(m, self.tables, fields, valid[-1], scaled)
        m.d.comb += self.result.eq(Cat(*(_extended(result) for result in results)))
        return m

    def _bounds(self, m: Module, fields: Any) -> tuple[Value, Value, Value]:
        """The lower and the upper bound of results, and the zero point."""
        least, high = Signal(signed(RESULT_BITS)), Signal(signed(RESULT_BITS))
        low = Signal(signed(RESULT_BITS), reset_less=True)
        m.d.comb += [
            high.eq(Mux(fields.unsigned, 255, 127)),
            least.eq(Mux(fields.relu, fields.zero_point, Mux(fields.unsigned, 0, -128))),
        ]
        m.d.sync += low.eq(Mux(least > high, high, least))  # registered: a later stage uses the bounds
        return low, high, fields.zero_point

    def _looked_up(
        self, m: Module, tables: LookupTables, fields: Any, valid: Value, scaled: list[Value]
    ) -> list[Value]:
        """The results, or with `lookup` their table entries, `LOOKUP_STAGES` later."""
        assert LOOKUP_STAGES == 2, "a look-up must take two stages: the memory, and a register of its output"
        table = fields.table if "table" in fields.shape().members else 0
        indices = [Cat(each[:BYTE], table)[: tables.index_bits] for each in scaled]
        m.d.comb += [tables.r_en.eq(valid & fields.lookup), tables.r_index.eq(Cat(*indices))]
        (entries,) = delayed(m, 1, tables.r_data, reset=False)
        results: list[Value] = []
        for number, own in enumerate(delayed(m, LOOKUP_STAGES, *scaled, reset=False)):
            byte = entries.word_select(number, BYTE)
            sign = byte[-1] & ~fields.lookup_unsigned
            results.append(Mux(fields.lookup, Cat(byte, sign).as_signed(), own))
        return results


def _extended(value: Value) -> Value:
    """A result, sign-extended to a value of an accumulator vector."""
    return Cat(value, replicated(value[-1], VALUE_BITS - len(value)))


def connect_rescale(m: Module, place: ExecuteStage) -> Value:
    """Connect the unit to the execute stage of the pipeline, and return its results, which come some cycles later."""
    reading, holding, combining = place.reading, place.holding, place.combining
    pad = place.pads[MemoryType.PAR]
    m.submodules.rescale = unit = Rescale(place.geometry, place.tables)
    # The index is delayed rather than the parameters, which have many more bits.
    (index,) = delayed(m, len(place.stages) - 4 - CHECK, place.indices["wgt"], reset=False)
    parameters = Signal.like(pad.r_data, reset_less=True)
    with m.If(holding.valid & holding.rescale):
        m.d.sync += parameters.eq(pad.r_data)
    m.d.comb += [
        pad.r_index.eq(index | reading.first),
        pad.r_en.eq(reading.valid & reading.rescale),
        unit.take.eq(combining.valid & combining.rescale),
        unit.first.eq(combining.first),
        unit.fields.eq(combining.of.rescale),
        unit.value.eq(place.value),
        unit.parameters.eq(parameters),
    ]
    return unit.result
