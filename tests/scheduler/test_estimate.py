"""The estimate of cycles: what it knows about transfers, held against its own parts."""

from dataclasses import replace

import pytest

from lathe.configs import load_config
from lathe.scheduler.estimate import Loads, Work, cycles_with_product, cycles_without_product, load_cycles
from lathe.scheduler.physical import Lanes, Physical, element_of

CONFIG = load_config("vta")
ROWS = Physical((64, 16, 256), Lanes(None, 2), element_of(CONFIG, "inp"))  # blocks of columns outermost
WORK = Work(tiles=8, parts=1, steps=10_000, stored=512, planes=1, alone=False)
LOADS = [Loads("inp", 400.0, 8, True), Loads("wgt", 2000.0, 1, True)]


def test_a_load_of_whole_rows_takes_its_beats():
    assert load_cycles(CONFIG, ROWS, 16, (64, 16, 16), 1024) == 1024 * 16 / 8


def test_a_load_of_single_elements_waits_for_the_memory():
    assert load_cycles(CONFIG, ROWS, 16, (64, 1, 16), 64) > 2 * 64 * 16 / 8


def test_what_hides_costs_little_and_what_comes_before_the_first_tile_costs_all():
    base = cycles_with_product(CONFIG, LOADS, WORK)
    hidden = cycles_with_product(CONFIG, [replace(LOADS[0], times=16), LOADS[1]], WORK)
    before = cycles_with_product(CONFIG, [LOADS[0], replace(LOADS[1], cycles=2000.0 + 8 * 400)], WORK)
    assert base < hidden < base + 400
    assert before > base + 8 * 400


@pytest.mark.parametrize(
    ("loads", "work"),
    [
        ([replace(LOADS[0], doubled=False), LOADS[1]], WORK),
        (LOADS, replace(WORK, alone=True)),
        (LOADS, replace(WORK, planes=4)),
        (LOADS, replace(WORK, parts=4)),
        ([*LOADS, Loads("acc", 100.0, 8, True)], WORK),
    ],
    ids=["one slot", "no slot for the next result", "planes", "parts", "loads by the compute unit"],
)
def test_what_makes_it_longer(loads, work):
    assert cycles_with_product(CONFIG, loads, work) > cycles_with_product(CONFIG, LOADS, WORK)


def test_without_a_product_nothing_hides_where_there_is_one_slot():
    loads = [Loads("acc", 400.0, 8, True)]
    doubled = cycles_without_product(CONFIG, loads, WORK)
    assert cycles_without_product(CONFIG, [replace(loads[0], doubled=False)], WORK) > doubled
    assert cycles_without_product(CONFIG, loads, replace(WORK, alone=True)) > doubled
