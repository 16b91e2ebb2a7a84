"""The memories of a machine, as commands name them."""

from lathe.isa import Unit

DRAM = "dram"
SCRATCHPADS = ("inp", "wgt", "acc")
SCOPES = (DRAM, *SCRATCHPADS)
SCOPE_SYNONYMS = {"global": DRAM, "out": "acc", "": DRAM}

UNIT_OF_SCOPE = {"inp": Unit.LOAD, "wgt": Unit.LOAD, "acc": Unit.COMPUTE, DRAM: Unit.STORE}
"""The unit whose instructions write there."""
