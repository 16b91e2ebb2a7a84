"""What a machine may have beyond VTA: a row for each extension that a configuration can switch on."""

from collections.abc import Mapping
from types import MappingProxyType

from lathe.configs.alu_operations import AluOp
from lathe.configs.encoding import GEMM_BEGIN, LOOKUP, PAD_VALUE, RESCALE_ADD
from lathe.configs.instructions import TABLE

EXTENSIONS: Mapping[str, str] = MappingProxyType(
    {
        PAD_VALUE: "the padding of a LOAD holds the signed `pad_value` of 8 bits, in all lanes, extended to 32 bits in "
        "acc. With `pad_limit`, padding in acc holds the least int32 value if `pad_value` is negative and the greatest "
        "if it is not; inp, wgt and lut ignore `pad_limit`. Padding of micro-ops and of parameters is always 0. In "
        "exchange `dram_base` of LOAD has three bits less. All other fields stay where they are, so that a stream "
        "without the extension's fields means the same on machines with it.",
        **{
            extension: "the ALU has "
            + " and ".join(f"`{each.name.lower()}`" for each in AluOp if each.extension == extension)
            + "."
            for extension in dict.fromkeys(each.extension for each in AluOp)
            if extension is not None
        },
        GEMM_BEGIN: "every micro-op of a GEMM with `begin` writes its product to its accumulator instead of adding it, "
        "whatever was there. Of several micro-ops with one accumulator the last one counts. With `reset`, `begin` "
        "changes nothing: zeros are written. It is a GEMM operation and takes the time of one. `begin` is a bit "
        "that no other field has, so that a stream without it means the same on machines with the extension.",
        **{row.extension: f"the instruction {row.opcode.name}. {row.what}" for row in TABLE.values() if row.extension},
        RESCALE_ADD: "RESCALE has `add`: a second accumulator, `acc[src]`, with bias and mantissa of the odd parameter "
        "element is added before rounding; the shift is that of the first. Micro-ops take two steps then. It needs "
        "`rescale`.",
        LOOKUP: "RESCALE has `lookup`: results are replaced by what a table of 256 elements in the scratchpad lut has "
        "for them, in each lane its own. Every RESCALE of the machine takes a few steps more at its end. It needs "
        "`rescale`.",
    }
)
"""What each extension changes, for the manual, by its name."""

PURPOSES: Mapping[str, str] = MappingProxyType(
    {
        PAD_VALUE: "a border of another value than 0 is padding of its LOADs, and not computed and stored before",
        **{each.extension: each.purpose for each in AluOp if each.extension is not None},
        GEMM_BEGIN: "sums begin with their first products, without a step for each accumulator that sets it to 0",
        **{row.extension: row.purpose for row in TABLE.values() if row.extension},
        RESCALE_ADD: "two tensors are rescaled and added in two steps of an element, without a pass before",
        LOOKUP: "a function of 8 bits is looked up in the pass that rescales, or in one of its own",
    }
)
"""Why a program makes use of an extension, by its name; of instructions and operations their rows say so."""
