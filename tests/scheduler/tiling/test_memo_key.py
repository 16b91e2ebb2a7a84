"""Memoisation of the tiling search: equal groups are searched once, and get the tiles of a search of their own."""

import numpy as np
import pytest

import lathe as lt
from lathe.configs import load_config
from lathe.scheduler.tiling import search


@pytest.fixture
def searches(monkeypatch):
    """The names of the groups that are searched; the cache is empty at first."""
    monkeypatch.setattr(search, "_CHOSEN", type(search._CHOSEN)())
    names = []
    add = search._add_cheapest

    def noted(number, model, *rest):
        names.append(model.problem.sink.name)
        add(number, model, *rest)

    monkeypatch.setattr(search, "_add_cheapest", noted)
    return names


def layer(data: lt.Tensor, name: str, filters: int = 16, kernel: int = 3) -> tuple[lt.Tensor, lt.Tensor]:
    weights = lt.placeholder((filters, kernel, kernel, data.shape[-1]), "int8", name=f"{name}_weights")
    sums = lt.conv2d(data, weights, padding=kernel // 2, name=f"{name}_sums")
    return lt.requantise(sums, 7, name=name), weights


def chain(*layers: tuple[int, int]) -> tuple[lt.Tensor, list[lt.Tensor]]:
    data = lt.placeholder((1, 12, 12, 16), "int8", name="data")
    tensors, made = [data], data
    for number, (filters, kernel) in enumerate(layers):
        made, weights = layer(made, f"layer{number}", filters, kernel)
        tensors.append(weights)
    return made, [*tensors, made]


def test_equal_layers_are_searched_once(searches):
    output, tensors = chain((16, 3), (16, 3), (16, 3), (16, 3))
    lt.build(output, tensors, load_config("vta"))
    assert searches
    assert len(searches) < 4
    assert "layer2" not in searches


@pytest.mark.sample(1)
@pytest.mark.parametrize("config", ["vta", "lathe16", "batch4"])
@pytest.mark.parametrize("layers", [((16, 3), (16, 3), (24, 1), (16, 3)), ((16, 1), (16, 1), (40, 3), (40, 3))])
def test_cached_tilings_give_the_same_program(searches, config, layers):
    output, tensors = chain(*layers)
    first = lt.build(output, tensors, load_config(config))
    count = len(searches)
    again = lt.build(output, tensors, load_config(config))
    assert len(searches) == count
    assert first.instructions == again.instructions
    assert all(np.array_equal(first.images[name], again.images[name]) for name in first.images)


def test_groups_with_user_loops_are_not_cached(searches):
    output, tensors = chain((16, 3), (16, 3))
    for factor in (4, 6):
        s = lt.create_schedule(output)
        s[output].split(s[output].axis[1], factor=factor)
        lt.build(s, tensors, load_config("vta"))
    assert searches.count("layer0") == 1


def test_the_cache_is_bounded(searches, monkeypatch):
    monkeypatch.setattr(search, "MOST_CHOSEN", 1)
    output, tensors = chain((16, 3), (24, 1))
    lt.build(output, tensors, load_config("vta"))
    assert len(search._CHOSEN) == 1
    assert searches
