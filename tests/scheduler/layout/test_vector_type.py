"""Vector types of memories: possible layouts, and the bytes that a vector is loaded from."""

import numpy as np
import pytest

import lathe as lt
from lathe.isa import MemoryType
from lathe.isa.table import MEMORIES
from lathe.scheduler.layout.physical_layout import PhysicalLayout
from lathe.scheduler.layout.vector_type import VectorType, loaded_bytes, vector_type_of
from lathe.scheduler.schedule_ir.memories import PARAMETERS, SCRATCHPADS
from lathe.scheduler.schedule_ir.stage import VectorLayout

MACHINES = [lt.load_config("vta"), lt.load_config("tiny").with_(batch=2), lt.load_config("tiny").with_(block_in=2)]


@pytest.mark.parametrize("config", MACHINES)
@pytest.mark.parametrize("dtype", ["int8", "int32"])
def test_accumulators_are_loaded_from_bytes_or_from_words(config, dtype):
    form = MEMORIES[MemoryType.ACC8 if dtype == "int8" else MemoryType.ACC]
    assert loaded_bytes(config, "acc", dtype) == form.element_bytes(config)
    assert loaded_bytes(config, "inp", dtype) == config.inp_element_bytes
    assert loaded_bytes(config, "wgt", dtype) == config.wgt_element_bytes


@pytest.mark.parametrize("config", MACHINES)
def test_a_value_takes_a_byte_in_the_narrowest_form_of_a_vector(config):
    for scope in SCRATCHPADS:
        bytes_of_a_value = 4 if scope == PARAMETERS else 1
        assert loaded_bytes(config, scope, "int8") == vector_type_of(config, scope).lanes * bytes_of_a_value


def test_possible_layouts_of_two_dimensions():
    one, two = (vector_type_of(lt.load_config("vta").with_(batch=batch), "acc") for batch in (1, 2))
    assert list(one.possible_lanes(range(2))) == [
        VectorLayout(None, 1),
        VectorLayout(None, 0),
        VectorLayout(None, None),
    ]
    columns = [(None, 1), (0, 1), (None, 0), (1, 0), (None, None), (0, None), (1, None)]
    assert [(lanes.rows, lanes.cols) for lanes in two.possible_lanes(range(2))] == columns


def test_vectors_of_a_group_without_columns_are_broadcast():
    """Their order is irrelevant then (asking for it used to raise AssertionError)."""
    element = VectorType(2, 4, span=16, grain=4)
    form = PhysicalLayout((2, 3), VectorLayout(0, None), element, group=4, positions=(2, 1))
    values = np.arange(6, dtype=np.int8).reshape(2, 3)
    packed = form.layout(lt.placeholder((2, 3), "int8", name="T"), "").pack(values).reshape(3, 4, 2, 4)
    for column, group in enumerate(packed):
        assert group.tolist() == [[[row] * 4 for row in values[:, column].tolist()]] * 4
