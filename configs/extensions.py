"""What a machine may have beyond VTA: a row for each extension that a configuration can switch on."""

from collections.abc import Mapping
from types import MappingProxyType

from lathe.configs.alu_operations import AluOp
from lathe.configs.encoding import PAD_VALUE

EXTENSIONS: Mapping[str, str] = MappingProxyType(
    {
        PAD_VALUE: "the padding of a LOAD holds the signed `pad_value` of 8 bits, in all lanes, extended to 32 bits in "
        "acc. With `pad_limit`, padding in acc holds the least int32 value if `pad_value` is negative and the greatest "
        "if it is not; inp and wgt ignore `pad_limit`. Padding of micro-ops is always 0. In exchange `dram_base` of "
        "LOAD has three bits less. All other fields stay where they are, so that a stream without the extension's "
        "fields means the same on machines with it.",
        **{
            extension: "the ALU has "
            + " and ".join(f"`{each.name.lower()}`" for each in AluOp if each.extension == extension)
            + "."
            for extension in dict.fromkeys(each.extension for each in AluOp)
            if extension is not None
        },
    }
)
"""What each extension changes, for the manual, by its name."""
