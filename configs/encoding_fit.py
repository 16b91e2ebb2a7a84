"""Check whether the fields of a machine fit into its instruction formats; otherwise the machine is refused."""

from dataclasses import dataclass

from lathe.configs.encoding import ACC, INP, PAR, UOP, UOP_END, WGT, Field, IndexWidths, pack_fields
from lathe.configs.instructions import formats_of
from lathe.configs.instructions.load import LOAD


@dataclass(frozen=True, slots=True)
class Misfit:
    """A field that is too wide on a machine: it ends ``over`` bits beyond the ``limit`` bits of its format.

    ``memory`` is the scratchpad whose depth determines the field's width, or None when no single one does.
    """

    format: str
    field: str
    memory: str | None
    limit: int
    over: int


def misfit(machine: IndexWidths) -> Misfit | None:
    """The first field that does not fit into the machine's instructions or micro-ops, or None when all fit."""
    for form in formats_of(machine.extensions):
        end_before = 0
        for placement in pack_fields(form.fields, form.word_bits, machine):
            end = max(placement.lsb + placement.width, end_before)
            if end > form.total_bits:
                # Counted from the end of the previous field: the bits to save, without the unused rest of its word.
                over = end_before + placement.width - form.total_bits
                field = placement.field
                return Misfit(form.name, field.name, _memory_of(field), form.total_bits, over)
            end_before = end
    sram_base = next(field for field in LOAD.format.fields if field.name == "sram_base")
    limit = sram_base.width.of(machine)
    depths = {
        "uop": machine.uop_index_bits,
        "inp": machine.inp_index_bits,
        "wgt": machine.wgt_index_bits,
        "acc": machine.acc_index_bits,
        "par": machine.par_index_bits,
        "lut": machine.lut_index_bits,
    }
    memory, widest = max(depths.items(), key=lambda item: item[1])
    return Misfit(LOAD.format.name, sram_base.name, memory, limit, widest - limit) if widest > limit else None


def _memory_of(field: Field) -> str | None:
    memories = {UOP: "uop", UOP_END: "uop", INP: "inp", WGT: "wgt", ACC: "acc", PAR: "par"}
    return {width.text: memory for width, memory in memories.items()}.get(field.width.text)
