"""docs/rtl.md: its generated tables, and the names in it."""

import re

import pytest

from lathe.hardware_manual import PAGE, renewed
from lathe.rtl.fault import FaultCode
from lathe.rtl.registers import REGISTERS

TEXT = PAGE.read_text(encoding="utf-8")


def test_the_tables_are_what_the_hardware_is_made_from():
    assert renewed(TEXT) == TEXT, "run python -m lathe.hardware_manual"


def test_every_register_and_fault_has_a_row():
    rows = re.findall(r"^\| (0x[0-9a-f]+) \| (\w+) \|", TEXT, re.MULTILINE)
    assert [(int(address, 16), name) for address, name in rows] == [(each.address, each.name) for each in REGISTERS]
    codes = re.findall(r"^\| (\d+) \| (\w+) \|", TEXT, re.MULTILINE)
    assert [(int(code), name) for code, name in codes] == [(int(code), code.name) for code in FaultCode]


def test_a_table_that_is_out_of_date_is_renewed():
    assert renewed(TEXT.replace("STREAM_LOW", "STREAM")) != TEXT.replace("STREAM_LOW", "STREAM")
    with pytest.raises(AssertionError, match="registers, generated"):
        renewed("no marks")


def test_every_file_that_the_page_names_exists():
    named = set(re.findall(r"`(\w+\.py)`", TEXT))
    assert len(named) > 10
    assert {name for name in named if not (PAGE.parents[1] / "rtl" / name).exists()} == set()
