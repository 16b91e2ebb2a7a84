"""Random RESCALEs without read-after-write hazards on accumulators."""

import numpy as np

from lathe.isa import Rescale
from lathe.isa.raw_hazards import first_raw_hazard


def extended_kinds(cfg):
    """The kinds of instructions that RESCALE adds, on a machine that has it."""
    if "rescale" not in cfg.extensions:
        return []
    return ["par", "rescale", "rescale", "rescale", *(["lut"] if "lookup" in cfg.extensions else [])]


def rescale_flags(rng, cfg):
    """Random values of the fields of a RESCALE that are not loops."""
    flags = {
        "zero_point": rng.choice([0, 0, -128, 255, rng.randrange(-256, 256), rng.randrange(128, 256)]),
        "unsigned": rng.random() < 0.5,
        "relu": rng.random() < 0.5,
    }
    if "rescale_add" in cfg.extensions:
        flags["add"] = rng.random() < 0.5
    if "lookup" in cfg.extensions:
        table = rng.randrange(1 << cfg.table_bits)
        flags |= {"lookup": rng.random() < 0.5, "lookup_unsigned": rng.random() < 0.5, "table": table}
    return flags


def rescale_of_time(rng, cfg):
    """A RESCALE over one micro-op of address 0, or over none, with some executions or none."""
    outer, inner = rng.choice([0, 1, 2, 5]), rng.choice([1, 1, 3, 4])
    return Rescale(0, rng.choice([0, 1, 1, 1]), outer, inner, inner, 1, 0, 0, **rescale_flags(rng, cfg))


def executions_of(instruction, starts):
    """The number of micro-ops that an instruction executes over the table ``starts``."""
    return instruction.iter_out * instruction.iter_in * len(starts[0])


def legal_rescale(rng, cfg, loops, columns):
    """A RESCALE with the loops of ``loops()`` over a table of ``columns`` (dst, src, wgt), if one has no hazard."""
    for _ in range(30):
        fields = {name: value for name, value in loops().items() if not name.startswith("src_")}
        factors = {name: rng.choice([0, 0, 1, 3]) for name in ("wgt_factor_out", "wgt_factor_in")}
        instruction = Rescale(**fields, **factors, **rescale_flags(rng, cfg))
        chosen = [np.array(column)[instruction.uop_bgn : instruction.uop_end] for column in columns]
        starts = dict(zip(("dst", "src", "wgt"), chosen, strict=True))
        if not executions_of(instruction, chosen) or first_raw_hazard(cfg, instruction, starts) is None:
            return instruction
    return Rescale(0, 1, 1, 1, 0, 0, 0, 0)
