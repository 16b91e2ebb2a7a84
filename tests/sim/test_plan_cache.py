"""The cache of micro-op plans: equal machines, tables and loops share one plan across launches."""

import numpy as np

from lathe.configs import load_config
from lathe.isa import Gemm
from lathe.sim import uop_plan_cache
from lathe.sim.uop_plan_cache import Plans

VTA = load_config("vta")
GEMM = Gemm(
    uop_bgn=0, uop_end=2, iter_out=1, iter_in=3, dst_factor_out=0, dst_factor_in=1, src_factor_out=0, src_factor_in=1,
    wgt_factor_out=0, wgt_factor_in=0,
)  # fmt: skip


class Maker:
    """Creates empty plans, and counts them."""

    made = 0

    def make(self, _instruction, nest, _where):
        Maker.made += 1
        return nest.executions, 1


def planned(cfg=VTA, word=1, of_samples=False):
    """How many plans a launch creates."""
    before = Maker.made
    uop = np.full((8, 1), word, np.uint32)
    for _ in range(2):
        assert Plans(cfg, uop, Maker().make, of_samples=of_samples).of(GEMM, lambda: "the instruction") == 6
    return Maker.made - before


def test_plans_are_made_once_for_all_launches():
    planned()
    assert planned() == 0
    assert planned(word=2) == 1
    assert planned(cfg=VTA.with_(inp_buffer_bytes=VTA.inp_buffer_bytes // 2)) == 1
    assert planned(of_samples=True) == 1


def test_plans_are_evicted_when_they_hold_too_many_indices(monkeypatch):
    monkeypatch.setattr(uop_plan_cache, "MOST_STORED", uop_plan_cache._CACHE.stored)
    assert planned(word=3) == 1  # evicts the others
    assert planned(word=3) == 0
    monkeypatch.setattr(uop_plan_cache, "MOST_STORED", 1)
    assert planned(word=4) == 1
    assert planned(word=3) == 1
