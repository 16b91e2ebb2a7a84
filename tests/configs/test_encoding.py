"""Fields that are as wide on every machine, as those say who know no machine."""

import pytest

from lathe.configs import load_config
from lathe.configs.encoding import Field, bits, place
from lathe.configs.instructions import FORMATS
from lathe.configs.instructions.gemm import GEMM
from lathe.isa.table import TABLE, placements


@pytest.mark.parametrize("machine", ["vta", "tiny", "lathe16"])
def test_what_fields_hold_on_every_machine_is_what_they_hold_on_each(machine):
    config = load_config(machine)
    for opcode, row in TABLE.items():
        for name, placement in placements(config, opcode).items():
            if placement.field.width.always is not None:
                assert row.format.values(name) == range(placement.lowest, placement.highest + 1)


def test_widths_that_are_always_the_same_are_those_that_need_no_machine():
    for form in FORMATS:
        for field in form.fields:
            assert (field.width.always is not None) == field.width.text.isdigit()


def test_a_field_that_depends_on_the_machine_has_no_values_without_one():
    with pytest.raises(AssertionError, match="dst_factor_in of gemm is as wide as the machine makes it"):
        GEMM.format.values("dst_factor_in")


def starts(*widths):
    """Where fields of such widths stand in words of 64 bits; those that fill gaps are negative."""
    fields = [Field(f"f{place}", bits(abs(width)), "", fills_gap=width < 0) for place, width in enumerate(widths)]
    return [each.lsb for each in place(fields, 64, load_config("vta"))]


def test_fields_that_fill_gaps_move_no_other_and_stand_behind_all_where_there_is_no_gap():
    assert starts(60, 10, 20) == [0, 64, 74]
    assert starts(60, 10, 20, -3, -1, -1) == [0, 64, 74, 60, 63, 94]
    assert starts(64, 64, -1) == [0, 64, 128]
