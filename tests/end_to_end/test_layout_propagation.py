"""Chains whose last layer needs another layout than the first: the layout is propagated to all of them."""

from dataclasses import replace

import numpy as np
import pytest
from checking import check_program
from shaped_machines import machine

import lathe as lt
from lathe.frontend import placeholders
from lathe.scheduler.passes import pipeline
from lathe.scheduler.passes.pipeline import Pass
from lathe.scheduler.schedule_ir.edit import Edit
from lathe.scheduler.schedule_ir.stage import VectorLayout
from lathe.scheduler.target.target import Target


def pointwise(data: lt.Tensor, filters: int, name: str) -> lt.Tensor:
    """A 1×1 convolution, requantised to int8."""
    weights = lt.placeholder((filters, 1, 1, data.shape[3]), "int8", name=f"{name}.weights")
    return lt.requantise(lt.conv2d(data, weights, name=f"{name}.sums"), 6, name=name)


def depthwise(data: lt.Tensor) -> lt.Tensor:
    weights = lt.placeholder((3, 3, data.shape[3]), "int8", name="depthwise.weights")
    return lt.requantise(lt.depthwise_conv2d(data, weights, padding=1, name="depthwise.sums"), 6, name="depthwise")


def narrowed(result: lt.Result) -> int:
    """The vectors that were narrowed to int8: each is shifted once."""
    return result.counters.alu_operations_of["shr"]


def largest(data: lt.Tensor) -> lt.Tensor:
    return lt.max_pool2d(data, 2, stride=1, name="largest")


def wide(data: lt.Tensor) -> lt.Tensor:
    weights = lt.placeholder((16, 3, 3, data.shape[3]), "int8", name="wide.weights")
    return lt.requantise(lt.conv2d(data, weights, padding=1, name="wide.sums"), 6, name="wide")


@pytest.mark.sample(1)
@pytest.mark.parametrize("last", [depthwise, wide])
@pytest.mark.parametrize("shape", [(2, 8, 16), (4, 8, 8), (4, 32, 16), (2, 16, 4)])
@pytest.mark.parametrize("size", [(2, 16), (8, 4)])
def test_windows_behind_several_layers_of_pixels(last, shape, size):
    """1×1 layers alone would have pixels in rows, but windows cannot read neighbouring pixels of one vector."""
    data = lt.placeholder((1, *size, 8), "int8", name="data")
    between = pointwise(pointwise(pointwise(data, 24, "first"), 16, "second"), 16, "third")
    result = check_program(last(between), machine(*shape))
    blocks = [-(-filters // shape[2]) for filters in (24, 16, 16, 16)]
    assert narrowed(result) == sum(blocks) * size[0] * size[1]


@pytest.mark.sample(1)
@pytest.mark.parametrize("shape", [(2, 8, 16), (4, 8, 8)])
def test_all_images_are_in_rows_behind_a_shortcut(shape):
    data = lt.placeholder((4, 4, 4, 4), "int8", name="data")
    first = pointwise(data, 16, "first")
    added = lt.add(pointwise(first, 16, "second"), first, name="added")
    result = check_program(depthwise(lt.requantise(added, 1, name="sum")), machine(*shape))
    assert narrowed(result) == 4 * (4 // shape[0] * 4 * 4 * 16 // shape[2])


@pytest.mark.parametrize("last", [largest, depthwise])
def test_a_layer_behind_the_windows(last):
    data = lt.placeholder((2, 6, 4, 16), "int8", name="data")
    between = last(pointwise(pointwise(data, 24, "first"), 16, "second"))
    result = check_program(pointwise(between, 8, "last"), machine(2, 8, 8))
    before, behind = 6 * 4 * (3 + 2), (6 * 4 * (2 + 1) if last is depthwise else 5 * 3)
    assert narrowed(result) == before + behind


@pytest.mark.sample(1)
@pytest.mark.parametrize("shape", [(1, 16, 16), (1, 4, 4), (4, 8, 8)])
def test_what_is_read_in_other_lanes_is_loaded_again(monkeypatch, shape):
    """Without vector layouts of stages, a GEMM has the channels of its data as lanes, a shortcut has no layout."""

    def bare(right: Pass) -> Pass:
        def run(schedule: Edit, target: Target) -> None:
            right.run(schedule, target)
            for stage in schedule.stages:
                stage.change(vector_layout=VectorLayout(None, None))

        return replace(right, run=run)

    passes = tuple(bare(each) if each.name == "resolve-layout-conflicts" else each for each in pipeline.PASSES)
    monkeypatch.setattr(pipeline, "PASSES", passes)
    data = lt.placeholder((1, 4, 4, 16), "int8", name="data")
    weights = lt.placeholder((16, 1, 1, 16), "int8", name="weights")
    output = lt.requantise(lt.add(lt.conv2d(data, weights, name="sums"), data, name="added"), 8, name="output")
    inputs = list(placeholders([output]))
    program = lt.build(output, [*inputs, output], machine(*shape))
    generator = np.random.default_rng(0)
    given = {each.name: generator.integers(-128, 128, each.shape, np.int8) for each in inputs}
    assert np.array_equal(lt.simulate(program, given).outputs["output"], lt.reference(output, given))
