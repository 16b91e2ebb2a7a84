"""ResNet-18's convolutions on `vta` with autotuned schedules, compared with the default schedules.

Cycles of the default schedule and of the fastest of twelve candidates, and the lower bound divided by the latter
(docs/lower-bound.md). Results are requantised by a shift, as in `layers.py`. Outputs are compared with NumPy.

    python benchmarks/autotuned.py [--json]
"""

import sys
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parent))

from figures import Figure, at_most, report
from layers import by_shift
from quantised import CONVOLUTIONS, name_of

import lathe as lt

BUDGET = 12


def figures() -> list[Figure]:
    """Three figures for each convolution; an autotuned schedule must not be slower than the default."""
    machine, rows = lt.load_config("vta"), []
    for shape in CONVOLUTIONS:
        output, tensors, given = by_shift(shape)
        found = lt.autoschedule(output, machine, budget=BUDGET, cache=False)
        result = lt.simulate(lt.build(found, tensors, machine), given)
        assert np.array_equal(result.outputs["output"], lt.reference(output, given)), (
            f"{name_of(*shape)}: outputs differ"
        )
        default = found.tried[0].cycles
        assert default is not None, f"{name_of(*shape)}: the default schedule does not fit"
        assert result.cycles == found.cycles, f"{name_of(*shape)}: {result.cycles} cycles, not {found.cycles}"
        rows.append(Figure(f"{name_of(*shape)}, default", default, "cycles"))
        rows.append(at_most(f"{name_of(*shape)}, found", found.cycles, "cycles", default))
        rows.append(Figure(f"{name_of(*shape)}, share", round(found.bound / found.cycles, 3), "of the bound"))
    return rows


if __name__ == "__main__":
    report(figures(), "ResNet-18's convolutions by found schedules")
