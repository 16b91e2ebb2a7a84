"""Pass ``outline-lookups``: each nested lookup becomes a stage of its own on machines with lookup tables."""

from collections.abc import Callable

import numpy as np
import pytest
from error_checks import check_mentions
from random_programs import random_inputs
from small_machine import run

import lathe as lt
from lathe.frontend import Expr, Read, Tensor

MACHINES = [lt.load_config(name) for name in ("lathe16", "board")]

D = lt.placeholder((4, 16), "int8", name="D")
L = lt.placeholder((256,), "int8", name="L")
M = lt.placeholder((256,), "uint8", name="M")
EACH = lt.placeholder((256, 16), "int8", name="EACH")
P = lt.placeholder((16, 2), "int32", name="P")
PP = lt.placeholder((16, 2, 2), "int32", name="PP")
W = lt.placeholder((8, 16), "int8", name="W")


def at(table: Tensor, value: Expr, *channel: Expr) -> Read:
    return table[(value.astype("uint8").astype("index"), *channel)]


def written_as_one(body: Callable[..., Expr], shape: tuple[int, ...] = (4, 16)) -> lt.Schedule:
    return lt.create_schedule(lt.compute(shape, body, name="B"))


def a_product() -> lt.Schedule:
    k = lt.reduce_axis(16, name="k")
    return written_as_one(lambda i, j: lt.sum(at(L, D[i, k]).astype("int32") * W[j, k].astype("int32"), axis=k), (4, 8))


def inlined(reader: Callable[[Tensor], Tensor], table: Tensor = L) -> lt.Schedule:
    looked_up = lt.lookup(D, table, name="looked_up")
    schedule = lt.create_schedule(reader(looked_up))
    schedule[looked_up].inline()
    return schedule


PROGRAMS: dict[str, Callable[[], lt.Schedule]] = {
    "in a table": lambda: written_as_one(lambda i, j: at(M, at(L, D[i, j]))),
    "in the same table": lambda: written_as_one(lambda i, j: at(L, at(L, at(L, D[i, j])))),
    "in a table of each channel": lambda: written_as_one(lambda i, j: at(L, at(EACH, D[i, j], j))),
    "in a sum": lambda: written_as_one(lambda i, j: (at(L, D[i, j]).astype("int32") + 1).astype("int8")),
    "in a product": a_product,
    "twice": lambda: written_as_one(lambda i, j: lt.max(at(L, D[i, j]), at(EACH, D[i, j], j))),
    "inlined into a look-up": lambda: inlined(lambda a: lt.lookup(a, M, name="B")),
    "inlined, of each channel": lambda: inlined(lambda a: lt.lookup(a, M, name="B"), EACH),
    "inlined into a rescaling": lambda: inlined(lambda a: lt.requantise(a, parameters=P, name="B")),
    "inlined into an addition": lambda: inlined(lambda a: lt.rescaled_add(a, D, parameters=PP, name="B")),
    "inlined into the other operand": lambda: inlined(lambda a: lt.rescaled_add(D, a, parameters=PP, name="B")),
}


@pytest.mark.sample(10)
@pytest.mark.parametrize("machine", MACHINES, ids=lambda each: each.name)
@pytest.mark.parametrize("program", PROGRAMS)
def test_a_lookup_nested_in_an_expression(program, machine):
    schedule = PROGRAMS[program]()
    inputs = random_inputs(list(schedule.program), seed=1)
    for name, channels in (("P", 1), ("PP", 2)):
        if name in inputs:
            scales = np.linspace(0.1, 0.5, 16)
            inputs[name] = lt.rescale_parameters(scales) if channels == 1 else lt.rescaled_add_parameters((scales, 0.3))
    run(schedule, machine, inputs)


def test_a_manual_rescale_of_a_lookup_is_refused():
    """The user has scheduled the stage, so it is not split; RESCALE has no such operand."""
    schedule = inlined(lambda a: lt.requantise(a, parameters=P, name="B"))
    output = schedule.program[0]
    rescaled = schedule.cache_write(output, "acc")
    schedule[rescaled].emit_insn(schedule[rescaled].axis[0], "rescale")
    with pytest.raises(lt.EmitError) as refused:
        lt.build(schedule, [D, L, P, output], MACHINES[0])
    check_mentions(refused.value, "operand L.acc", "L.acc[index(uint8(D.acc[i0, i1]))]", "tables")
