"""Schedule states are immutable: nothing reachable from one can be written to, whatever created it."""

import ast
from collections.abc import Mapping
from dataclasses import FrozenInstanceError, fields, is_dataclass
from enum import Enum
from pathlib import Path
from types import FunctionType, MappingProxyType

import numpy
import pytest
from error_checks import raises

import lathe as lt
import lathe.scheduler
from lathe.scheduler.loop_ir.build_nest import build_nest
from lathe.scheduler.loop_ir.nodes import Loop
from lathe.scheduler.loop_ir.partition import partition
from lathe.scheduler.passes.pipeline import PASSES
from lathe.scheduler.schedule_ir.schedule_state import MAPPINGS, ScheduleState
from lathe.scheduler.target.target import Target


def written_by_commands() -> lt.Schedule:
    """A schedule to which each kind of primitive that sets a mapping has been applied."""
    A = lt.placeholder((8, 32), "int8", name="A")
    X = lt.placeholder((4, 64), "int8", name="X")
    k = lt.reduce_axis((0, 32), name="k")
    B = lt.compute((8, 32), lambda i, j: lt.select(i + j > 3, A[i, j], 0), name="B")
    C = lt.compute((8, 8), lambda i, j: lt.sum(B[i, k].astype("int32") * B[j, k].astype("int32"), k), name="C")
    R = lt.compute((8, 32), lambda i, j: X[i // 2, (i % 2) * 32 + j], name="R")
    D = lt.compute((8, 32), lambda i, j: R[i, j] + 1, name="D")
    s = lt.create_schedule([C, D])
    s[D].transform_layout(lambda i, j: (j // 16, i, j % 16))
    s[C].vthread(s[C].op.axes[0], 2)
    s[D].unroll(s[D].state.leaves[0])
    return s


def states() -> list[ScheduleState]:
    """After primitives, and after every pass for a machine."""
    found = [written_by_commands().state]
    for each in PASSES:
        found.append(each.apply(found[-1], Target(lt.load_config("vta"))))
    return found


def test_no_mapping_of_a_schedule_can_be_written_to():
    filled = set[str]()
    for state in states():
        mappings = {each.name for each in fields(state) if isinstance(getattr(state, each.name), Mapping)}
        assert mappings == set(MAPPINGS)
        for name in MAPPINGS:
            mapping = getattr(state, name)
            filled |= {name} if mapping else set()
            with pytest.raises(TypeError, match="does not support item assignment"):
                mapping[None] = None
    assert filled == set(MAPPINGS) - {"allocations"}


def test_nor_one_of_its_tables():
    tables = written_by_commands().state.def_use
    for mapping in (tables.stages, tables.producers, tables.consumers, tables.attached):
        with pytest.raises(TypeError, match="does not support item assignment"):
            mapping[None] = None


def test_nor_one_of_its_stages():
    filled = set[str]()
    for state in states():
        for stage in state.stages.values():
            for each in fields(stage):
                mapping = getattr(stage, each.name)
                if isinstance(mapping, Mapping):
                    filled |= {each.name} if mapping else set()
                    assert isinstance(mapping, MappingProxyType), each.name
                assert not isinstance(mapping, list | set), each.name
    assert {"annotations", "threads"} & filled


def reached(value, path, seen):
    """All objects reachable from a value by fields and items, each with its path."""
    if id(value) in seen or isinstance(value, ATOMS):
        return
    seen[id(value)] = value  # keeps it alive, so that no other object gets its id
    yield path, value
    if isinstance(value, Mapping):
        members = [("key", key) for key in value] + [("value", each) for each in value.values()]
    elif isinstance(value, tuple | frozenset | list | set):
        members = [("element", each) for each in value]
    elif is_dataclass(value):
        members = [(each.name, getattr(value, each.name)) for each in fields(value)]
    else:
        members = []
    for name, member in members:
        yield from reached(member, (*path, name), seen)


ATOMS = (str, int, float, bytes, Enum, FunctionType, type, type(None))


def test_all_that_is_reached_from_a_state_or_a_machine_is_frozen():
    seen: dict[int, object] = {}
    kinds = set[str]()
    for root in (*states(), Target(lt.load_config("vta")), Target(lt.load_config("vta")).memories):
        for path, value in reached(root, (type(root).__name__,), seen):
            kinds.add(type(value).__name__)
            if isinstance(value, tuple | frozenset | MappingProxyType | range):
                continue
            if isinstance(value, numpy.ndarray):
                assert not value.flags.writeable, path
                continue
            assert is_dataclass(value), (path, type(value))
            with pytest.raises((FrozenInstanceError, TypeError)):
                setattr(value, fields(value)[0].name, None)
    assert {"LoopAxis", "StageId", "Computation", "Split", "Scratchpad", "Axis", "Tensor"} <= kinds


def test_a_mapping_that_is_given_is_not_copied():
    s = written_by_commands()
    views = {}
    changed = s.state.replace(views=views)
    assert isinstance(changed.views, MappingProxyType)
    assert changed.replace(views=changed.views).views is changed.views
    assert changed.stages is s.state.stages


BUILDERS = {
    "codegen/chunk_memo.py": {"_OperandForms"},
    "stream/elide_accumulator_init.py": {"ZeroInitQuery"},
    "codegen/reuse_dram.py": {"_LiveRange"},
    "schedule_trace.py": {"ScheduleTrace", "_Values"},
    "legality/guard_removal.py": {"GuardRemoval"},
    "loop_ir/interpret.py": {"_Memory"},
    "loop_ir/stage_loops.py": {"_Sizes"},
    "loop_ir/interleave_vthreads.py": {"Thread"},
    "loop_ir/timestamps.py": {"Span"},
    "tiling/fusion_groups.py": {"FusionGroup"},
    "tiling/problem.py": {"Tiling", "TilingProblem"},
    "inspect/explain.py": {"_Tally", "_Unasked"},
    "allocation/allocation.py": {"Buffer"},
    "layout/layout_assignment.py": {"LayoutAssignment"},
    "isel/rules/loop_plan.py": {"_Loop"},
}
"""Mutable dataclasses by file: they are filled during a traversal."""


@pytest.mark.slow
def test_all_other_dataclasses_of_the_scheduler_are_frozen():
    root = Path(lathe.scheduler.__file__).parent
    found: dict[str, set[str]] = {}
    for path in sorted(root.rglob("*.py")):
        for node in ast.walk(ast.parse(path.read_text())):
            for decorator in node.decorator_list if isinstance(node, ast.ClassDef) else ():
                text = ast.unparse(decorator)
                if text.startswith("dataclass") and "frozen=True" not in text:
                    found.setdefault(path.relative_to(root).as_posix(), set()).add(node.name)
    assert found == BUILDERS


def test_a_nest_cannot_be_written_to():
    s = written_by_commands()
    nodes = build_nest(s)
    for each in (nodes, partition(nodes)):
        loop = next(node for node in each if isinstance(node, Loop))
        assert isinstance(loop.body, tuple)
        with pytest.raises(FrozenInstanceError):
            loop.last = 0


def test_a_schedule_is_changed_by_commands_alone():
    """Edit methods, for primitives and passes, check no legality; a user's handle rejects them."""
    s = written_by_commands()
    before, (first, *rest) = s.state, s.stages
    wrong = {
        "put": [lambda: s.put({first: first.state}), lambda: first.put(first.state), lambda: first.change(scope="acc")],
        "reset_to": [
            lambda: s.reset_to(before),
            lambda: s.update(has_recurrences=True),
            lambda: s.reorder_stages([*rest, first]),
            lambda: s.remove(first),
        ],
    }
    for name, calls in wrong.items():
        for call in calls:
            raises(lt.ScheduleError, call, kind="argument", mentions=(name, "primitive", "fork"))
            assert s.state is before
    first.split(first.axis[0], 2)  # primitives still work
    assert s.state is not before
    s.fork().reorder_stages([*rest, first])


def test_a_refused_command_leaves_a_schedule_guarded():
    s = written_by_commands()
    with pytest.raises(lt.LatheError):
        s.stages[0].split(s.stages[0].axis[0], -1)
    raises(lt.ScheduleError, s.update, has_recurrences=True, kind="argument", mentions=("reset_to",))
