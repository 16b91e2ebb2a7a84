"""Execution of schedules with poisoned padding, and brute-force confirmation of refusals of ``overcompute``."""

from unittest.mock import patch

import numpy as np
from meanings import check_values
from random_programs import random_inputs

from lathe.frontend import Tensor, evaluate, reads_data
from lathe.frontend.arith.conditions import conjuncts
from lathe.frontend.expr.dtypes import DTYPES
from lathe.frontend.expr.expr_base import walk
from lathe.frontend.expr.nodes import Read, Reduce, Select, Undef
from lathe.scheduler import PaddingWitness, Schedule
from lathe.scheduler.loop_ir.interpret import interpret_padded


def poisoned(schedule: Schedule, inputs=None, offset: int = 0) -> dict[str, np.ndarray]:
    """Every computed tensor in its layout; ``offset`` changes the garbage in undefined cells."""
    inputs = random_inputs(list(schedule.program), seed=0) if inputs is None else inputs
    with patch("lathe.scheduler.loop_ir.interpret.GARBAGE", 0x5A5A5A5A + offset):
        return interpret_padded(schedule, inputs)


def check_poisoned(schedule: Schedule, seed: int = 0) -> None:
    """Fail if an output depends on the contents of undefined padding."""
    inputs = random_inputs(list(schedule.program), seed=seed)
    outputs = list(schedule.program)
    for offset in (77, -12345):
        found = poisoned(schedule, inputs, offset)
        unpacked = {each.name: schedule.layout(each).unpack(found[schedule.current(each).name]) for each in outputs}
        check_values(unpacked, outputs, inputs)


def confirm_added(schedule: Schedule, tensor: Tensor, witness: PaddingWitness) -> None:
    """Fail unless the added instance changes a value for some data, or reads undefined cells.

    The stage's expression is evaluated without its conditions at the instance of the witness, on tensors packed in
    their layouts.
    """
    stage = schedule[tensor]
    computation = stage.op
    axes = {axis.name: axis for axis in (*computation.axes, *computation.reduce_axes)}
    bound = {axes[name]: value for name, value in witness.instance.items()}
    body = computation.bodies[0]
    inner = body.body if isinstance(body, Reduce) else body
    while isinstance(inner, Select):
        inner = inner.then
    results = set()
    for offset in (0, 1, 2, 3, 50):
        arrays = {}
        inputs = random_inputs(list(schedule.program), seed=offset)
        with patch("lathe.scheduler.loop_ir.interpret.GARBAGE", offset * 12345):
            computed = interpret_padded(schedule, inputs)
        for node in walk(inner):
            if isinstance(node, Read):
                given = inputs.get(node.tensor.name)
                arrays[node.tensor] = (
                    schedule.layout(node.tensor).pack(given, offset * 12345)
                    if given is not None
                    else computed[node.tensor.name]
                )
        results.add(int(evaluate(inner, {**bound, **arrays})))
    if isinstance(body, Reduce):
        limits = DTYPES[body.dtype]
        wanted = {"sum": 0, "prod": 1, "max": limits.minimum, "min": limits.maximum}[body.kind]
        node = body.body
        while isinstance(node, Select):
            known = [each for each in conjuncts(node.condition) if not reads_data(each)]  # conditions on data may hold
            if not all(bool(evaluate(each, bound)) for each in known):
                wanted = int(evaluate(node.otherwise, bound))
                break
            node = node.then
        assert results != {wanted}, f"{witness} changes nothing"
    else:
        layout = schedule.layout(tensor)
        cell = witness.cell
        promised = layout.pack(np.zeros(layout.tensor.shape, np.int64), 99)[cell]
        assert promised != 99, f"nobody relies on {cell}"
        assert results != {int(promised)}, f"{witness} keeps the contract"
    assert not any(isinstance(node, Undef) for node in walk(inner))


def confirm_refused(schedule: Schedule, tensor: Tensor, witness: PaddingWitness) -> None:
    """Fail unless the added instance accesses cells out of bounds, reads forbidden padding, or changes a value."""
    stage = schedule[tensor]
    inside = all(0 <= at < extent for at, extent in zip(witness.cell, stage.tensor.shape, strict=True))
    if not inside:
        return  # a cell beyond the tensor
    for read in stage.op.reads:
        layout = schedule.layout(read.tensor)
        for name, cell, what in witness.reads:
            if name != read.tensor.name:
                continue
            exists = all(0 <= at < extent for at, extent in zip(cell, read.tensor.shape, strict=True))
            assert exists == (what != "out of bounds"), f"{name}{cell} is {what}"
            if what == "out of bounds":
                return
            holds = [layout.pack(np.full(layout.tensor.shape, value, np.int64), 99)[cell] for value in (7, 8)]
            if what == "an element":
                assert holds == [7, 8], f"{name}{cell} is no element"
            elif what == "forbidden padding":
                assert holds == [99, 99], f"{name}{cell} has a value"
                return
            else:
                assert holds == [99 if "undefined" in what else int(what.split(", ")[1])] * 2, f"{name}{cell}"
    confirm_added(schedule, tensor, witness)
