"""The extensions beyond VTA that a configuration can enable, one row each."""

from collections.abc import Mapping
from types import MappingProxyType

from lathe.configs.alu_operations import AluOp
from lathe.configs.encoding import GEMM_BEGIN, LOOKUP, PAD_VALUE, RESCALE_ADD
from lathe.configs.instructions import TABLE

EXTENSIONS: Mapping[str, str] = MappingProxyType(
    {
        PAD_VALUE: "the padding of a LOAD holds the signed 8-bit `pad_value` in all lanes, sign-extended to 32 bits in "
        "acc. With `pad_limit`, padding in acc holds the smallest int32 value if `pad_value` is negative and the "
        "largest otherwise; inp, wgt and lut ignore `pad_limit`. Padding of micro-ops and parameters is always 0. In "
        "exchange, `dram_base` of LOAD is three bits narrower. All other fields keep their positions: a stream "
        "without the extension's fields means the same on machines with it.",
        **{
            extension: "the ALU has "
            + " and ".join(f"`{each.name.lower()}`" for each in AluOp if each.extension == extension)
            + "."
            for extension in dict.fromkeys(each.extension for each in AluOp)
            if extension is not None
        },
        GEMM_BEGIN: "every micro-op of a GEMM with `begin` overwrites its accumulator with its result instead of "
        "adding to it. If several micro-ops write one accumulator, the last one determines its value. `reset` takes "
        "precedence over `begin`. Such a GEMM counts as a GEMM operation and takes the same time. `begin` uses a bit "
        "that is otherwise reserved: a stream without it means the same on machines with the extension.",
        **{row.extension: f"the instruction {row.opcode.name}. {row.what}" for row in TABLE.values() if row.extension},
        RESCALE_ADD: "RESCALE has `add`: a second accumulator, `acc[src]`, scaled by bias and mantissa of the odd "
        "parameter vector, is added before rounding; the shift is that of the even one. Such micro-ops issue in two "
        "cycles. It requires `rescale`.",
        LOOKUP: "RESCALE has `lookup`: results are replaced by their entries in a table of 256 vectors in scratchpad "
        "lut, with separate entries for each lane. Every RESCALE of the machine takes a few more cycles at its end. It "
        "requires `rescale`.",
    }
)
"""What each extension changes, by its name, for the manual."""

PURPOSES: Mapping[str, str] = MappingProxyType(
    {
        PAD_VALUE: "LOADs pad with values other than 0, so that no padded copy has to be computed and stored before",
        **{each.extension: each.purpose for each in AluOp if each.extension is not None},
        GEMM_BEGIN: "a sum starts with its first GEMM, without a reset GEMM that sets its accumulators to 0",
        **{row.extension: row.purpose for row in TABLE.values() if row.extension},
        RESCALE_ADD: "two tensors are rescaled and added in two cycles per vector, without a separate pass",
        LOOKUP: "a function of an 8-bit value is a table look-up in the pass that rescales, or in one of its own",
    }
)
"""Why a program uses an extension, by its name; rows of instructions and operations state their own."""
