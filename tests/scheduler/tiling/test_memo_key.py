"""Groups that are alike are tiled once, and as each alone would be."""

import numpy as np
import pytest

import lathe as lt
import lathe.scheduler.tiling.search as choose
from lathe.configs import load_config


@pytest.fixture
def searches(monkeypatch):
    """The models that are searched through, with nothing chosen before."""
    monkeypatch.setattr(choose, "_CHOSEN", type(choose._CHOSEN)())
    found = []
    add = choose._add_cheapest

    def noted(number, model, *rest):
        found.append(model.problem.sink.name)
        add(number, model, *rest)

    monkeypatch.setattr(choose, "_add_cheapest", noted)
    return found


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


def test_layers_that_are_alike_are_searched_once(searches):
    output, tensors = chain((16, 3), (16, 3), (16, 3), (16, 3))
    lt.build(output, tensors, load_config("vta"))
    assert searches, "something is searched"
    assert len(searches) < 4
    assert "layer2" not in searches


@pytest.mark.parametrize("config", ["vta", "lathe16", "batch4"])
@pytest.mark.parametrize("layers", [((16, 3), (16, 3), (24, 1), (16, 3)), ((16, 1), (16, 1), (40, 3), (40, 3))])
def test_what_was_chosen_before_is_what_would_be_chosen(searches, config, layers):
    output, tensors = chain(*layers)
    first = lt.build(output, tensors, load_config(config))
    count = len(searches)
    again = lt.build(output, tensors, load_config(config))
    assert len(searches) == count
    assert first.instructions == again.instructions
    assert all(np.array_equal(first.images[name], again.images[name]) for name in first.images)


def test_loops_of_the_users_are_their_own(searches):
    output, tensors = chain((16, 3), (16, 3))
    for factor in (4, 6):
        s = lt.create_schedule(output)
        s[output].split(s[output].axis[1], factor=factor)
        lt.build(s, tensors, load_config("vta"))
    assert searches.count("layer0") == 1


def test_no_more_is_kept_than_some(searches, monkeypatch):
    monkeypatch.setattr(choose, "MOST_CHOSEN", 1)
    output, tensors = chain((16, 3), (24, 1))
    lt.build(output, tensors, load_config("vta"))
    assert len(choose._CHOSEN) == 1
    assert searches
