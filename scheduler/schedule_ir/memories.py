"""The memories of a machine, as commands name them, and what each is for."""

from lathe.isa import Unit
from lathe.isa.table import MEMORIES

DRAM = "dram"
ACC = "acc"
"""Where results are computed, and stored from; what commands take where nobody says a memory."""
INP, WGT = OPERANDS = ("inp", "wgt")
"""What matrix products read, and nothing else."""
PARAMETERS, TABLES = "par", "lut"
"""What rescaling reads besides accumulators: parameters of channels, and tables of 256 values."""
SCRATCHPADS = (*OPERANDS, ACC, PARAMETERS, TABLES)
SCOPES = (DRAM, *SCRATCHPADS)
SCOPE_SYNONYMS = {"global": DRAM, "": DRAM, "out": ACC}
"""Other names that commands take: those of schedules elsewhere, and that of the instruction which stores results."""

FORMS = {name: tuple(each for each in MEMORIES.values() if each.scratchpad == name) for name in SCRATCHPADS}
"""What the table of instructions says of each: a row for every form that its elements have in DRAM."""
UNIT_OF_SCOPE = {DRAM: Unit.STORE, **{name: forms[0].load_unit for name, forms in FORMS.items()}}
"""The unit whose instructions write there."""
MOST_DIMENSIONS = {DRAM: 2, **dict.fromkeys(SCRATCHPADS, 1)}
"""Of a physical buffer: a DMA finds rows of any pitch in DRAM, and a scratchpad is addressed by one number."""
