"""Lowered schedules are verified like the user's: faults of compiler passes are caught before code generation."""

import re
from collections.abc import Callable
from dataclasses import replace

import numpy as np
import pytest
from small_machine import run

from lathe.configs import load_config
from lathe.frontend import Tensor, compute, min, placeholder, placeholders, recurrence, reduce_axis, sum
from lathe.scheduler import LegalityError, Schedule, build, create_schedule
from lathe.scheduler.passes import pipeline
from lathe.scheduler.passes.pipeline import Pass
from lathe.scheduler.schedule_ir.edit import Edit
from lathe.scheduler.schedule_ir.stage import ComputeAt
from lathe.scheduler.target.target import Target

A = placeholder((32, 16), "int32", "A")
CONFIG = load_config("vta")


def planted(monkeypatch: pytest.MonkeyPatch, name: str, fault: Callable[[Edit], None]) -> None:
    """Run a pass and then insert a fault into its schedule."""

    def wrong(right: Pass) -> Pass:
        def run(schedule: Edit, target: Target) -> None:
            right.run(schedule, target)
            fault(schedule)

        return replace(right, run=run)

    passes = tuple(wrong(each) if each.name == name else each for each in pipeline.PASSES)
    monkeypatch.setattr(pipeline, "PASSES", passes)


def refused(outputs: list[Tensor], schedule: Schedule) -> LegalityError:
    """The verification error of the lowered schedule, from the assertion that ends ``build``."""
    tensors = [*placeholders(outputs), *outputs]
    with pytest.raises(AssertionError, match=re.escape("lowering a legal schedule has made it illegal: ")) as caught:
        build(schedule, tensors, CONFIG)
    cause = caught.value.__cause__
    assert isinstance(cause, LegalityError)
    assert str(cause.witness) in str(caught.value)
    return cause


def two_readers() -> tuple[list[Tensor], Schedule]:
    P = compute(A.shape, lambda i, j: A[i, j] + 1, "P")
    first = compute(A.shape, lambda i, j: P[i, j] * 2, "first")
    second = compute(A.shape, lambda i, j: P[31 - i, j] * 3, "second")
    s = create_schedule([first, second])
    s[P].set_scope("acc")
    return [first, second], s


def test_a_stage_moved_away_from_a_consumer_is_caught_with_a_witness(monkeypatch):
    outputs, schedule = two_readers()

    def fault(completed: Edit) -> None:
        P, first = completed.stages[0], completed.stages[1]
        P.change(attachment=ComputeAt(first.id, first.state.leaves[0]))

    planted(monkeypatch, "fit-layout-to-storage", fault)
    witness = refused(outputs, schedule).witness
    assert (witness.producer_stage, witness.cell) == ("P", (0, 0))
    assert witness.consumer_stage == "second.acc"


def test_a_stage_moved_after_its_consumer_is_caught_with_a_witness(monkeypatch):
    outputs, schedule = two_readers()
    planted(
        monkeypatch,
        "fit-layout-to-storage",
        lambda completed: completed.reorder_stages([*completed.stages[1:], completed.stages[0]]),
    )
    witness = refused(outputs, schedule).witness
    assert (witness.producer_stage, witness.cell, witness.consumer_stage) == ("P", (0, 0), "first.acc")


def test_a_load_moved_out_of_the_loop_that_stores_it_is_caught_with_a_witness(monkeypatch):
    """The iterations of a recurrence are stored and loaded one by one."""
    R = recurrence((8, 16), lambda R, t, j: R[t - 1, j] + A[t, j], init=0, name="R")

    def fault(completed: Edit) -> None:
        for stage in completed.stages:
            if stage.state.copy_of is R:
                stage.change(attachment=None)

    planted(monkeypatch, "insert-cache-reads", fault)
    witness = refused([R], create_schedule(R)).witness
    assert (witness.producer_stage, witness.consumer_stage) == ("R", "R.acc2")


def test_recurrence_loops_in_a_wrong_order_are_caught_with_a_witness(monkeypatch):
    R = recurrence((8, 16), lambda R, t, j: R[t - 1, min(j + 1, 15)] + A[t, j], init=0, name="R")

    def fault(completed: Edit) -> None:
        stored = completed[R]
        stored.change(leaves=stored.state.leaves[::-1])

    planted(monkeypatch, "insert-cache-reads", fault)
    witness = refused([R], create_schedule(R)).witness
    assert (witness.producer_stage, witness.consumer_stage, witness.producer["t"]) == ("R", "R.acc2", 0)


@pytest.mark.parametrize("name", ["vta", "tiny"])
def test_cells_that_are_loaded_before_they_are_computed_and_not_read_are_legal(name):
    """The bounding box of cells along a diagonal contains the cell that is being computed."""
    r = reduce_axis(3, "r")
    R = recurrence((6, 6), lambda R, t, j: sum(R[t - r, j - 2 + r] + A[t, j], axis=r), init=1, name="R")
    run(create_schedule(R), load_config(name), {"A": np.arange(512, dtype=np.int32).reshape(A.shape)})
