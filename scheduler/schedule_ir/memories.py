"""Memory scopes, as primitives name them."""

from lathe.isa import Unit
from lathe.isa.table import MEMORIES

DRAM = "dram"
ACC = "acc"
"""The accumulators: results are computed here, and stored from here; the default scope of primitives."""
INP, WGT = OPERANDS = ("inp", "wgt")
"""Operands of GEMM; no other instruction reads them."""
PARAMETERS, TABLES = "par", "lut"
"""Operands of RESCALE besides accumulators: per-channel parameters, and tables of 256 values."""
SCRATCHPADS = (*OPERANDS, ACC, PARAMETERS, TABLES)
SCOPES = (DRAM, *SCRATCHPADS)
SCOPE_SYNONYMS = {"global": DRAM, "": DRAM, "out": ACC}
"""Synonyms that primitives accept: scope names of other systems, and the memory type of STORE."""

FORMS = {name: tuple(each for each in MEMORIES.values() if each.scratchpad == name) for name in SCRATCHPADS}
"""Rows of the instruction table for each scratchpad, one per format that its vectors have in DRAM."""
UNIT_OF_SCOPE = {DRAM: Unit.STORE, **{name: forms[0].load_unit for name, forms in FORMS.items()}}
"""The unit whose instructions write each memory."""
MOST_DIMENSIONS = {DRAM: 2, **dict.fromkeys(SCRATCHPADS, 1)}
"""Of a physical buffer: a DMA reads rows of any pitch from DRAM, but addresses a scratchpad linearly."""
