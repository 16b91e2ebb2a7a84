"""Fault codes and the exception that carries them."""

import pickle
from pathlib import Path

from lathe.isa import FaultCode, MachineFault
from lathe.isa.fault import FAULT_DESCRIPTIONS


def test_each_code_has_a_meaning_of_its_own():
    assert list(FAULT_DESCRIPTIONS) == list(FaultCode)
    assert len(set(FAULT_DESCRIPTIONS.values())) == len(FaultCode)


def test_the_timing_model_page_has_the_detection_cycle_of_each_code():
    page = (Path(__file__).parents[2] / "docs" / "timing-model.md").read_text()
    faults = page.split("\n## Faults\n")[1].split("\n## ")[0]
    assert {code for code in FaultCode if f"`{code.name}`" in faults} == set(FaultCode) - {FaultCode.NONE}


def test_a_fault_survives_a_process_boundary():
    fault = MachineFault("It stopped.", FaultCode.SRAM_RANGE, instruction=3, cycle=70)
    found = pickle.loads(pickle.dumps(fault))
    assert (str(found), found.code, found.instruction, found.cycle) == ("It stopped.", FaultCode.SRAM_RANGE, 3, 70)
