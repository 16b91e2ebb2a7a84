"""Fields of equal width on every machine have values without a machine; the packing of fields."""

import pytest

from lathe.configs import load_config
from lathe.configs.encoding import Field, bits, pack_fields
from lathe.configs.instructions import FORMATS
from lathe.configs.instructions.gemm import GEMM
from lathe.isa.table import TABLE, placements


@pytest.mark.parametrize("machine", ["vta", "tiny", "lathe16"])
def test_values_without_a_machine_are_those_on_each_machine(machine):
    config = load_config(machine)
    for opcode, row in TABLE.items():
        for name, placement in placements(config, opcode).items():
            if placement.field.width.always is not None:
                assert row.format.values(name) == range(placement.lowest, placement.highest + 1)


def test_exactly_the_constant_widths_have_a_number_as_text():
    for form in FORMATS:
        for field in form.fields:
            assert (field.width.always is not None) == field.width.text.isdigit()


def test_a_field_that_depends_on_the_machine_has_no_values_without_one():
    with pytest.raises(AssertionError, match=r"dst_factor_in of gemm depends on the machine"):
        GEMM.format.values("dst_factor_in")


def starts(*widths):
    """The lowest bits of fields with these widths in 64-bit words; negative widths are of fields that fill gaps."""
    fields = [Field(f"f{n}", bits(abs(width)), "", fills_gap=width < 0) for n, width in enumerate(widths)]
    return [each.lsb for each in pack_fields(fields, 64, load_config("vta"))]


def test_fields_that_fill_gaps_move_no_other_and_come_after_all_others_without_a_gap():
    assert starts(60, 10, 20) == [0, 64, 74]
    assert starts(60, 10, 20, -3, -1, -1) == [0, 64, 74, 60, 63, 94]
    assert starts(64, 64, -1) == [0, 64, 128]
