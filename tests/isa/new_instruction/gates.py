"""The hardware of CLIP: every value is clamped to a range."""

from amaranth import Cat, Module, Mux
from amaranth.hdl import Value

from lathe.rtl.alu import VALUE_BITS
from lathe.rtl.execute_stage import ExecuteStage


def clip_in(m: Module, place: ExecuteStage) -> Value:  # noqa: ARG001 - combinational, fast enough without a register
    """The results of CLIP, in the cycle in which its accumulator is available."""
    fields, results = place.combining.of.clip, []
    for number in range(len(place.value) // VALUE_BITS):
        value = place.value.word_select(number, VALUE_BITS).as_signed()
        raised = Mux(value < fields.low, fields.low, value)
        results.append(Mux(raised > fields.high, fields.high, raised)[:VALUE_BITS])
    return Cat(*results)
