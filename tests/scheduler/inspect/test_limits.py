"""Every error states its kind, and docs/limits.md lists the messages of unsupported features."""

from pathlib import Path
from typing import get_args

import pytest

import lathe as lt
from lathe.configs import RefusalKind, load_config
from lathe.frontend import Tensor, compute, placeholder, reduce_axis, sum
from lathe.scheduler import Schedule, build, create_schedule, explain
from lathe.scheduler.inspect.limits import page, reasons, sites

PAGE = Path(__file__).parents[3] / "docs" / "limits.md"
TINY = load_config("tiny")


def test_every_error_in_the_source_states_its_kind():
    passed_on = ("error.kind", "result.kind")
    unstated = [site for site in sites() if site.kind not in (*get_args(RefusalKind), *passed_on)]
    assert unstated == []


def test_messages_in_the_source_name_a_constraint_or_a_reason():
    texts = [site for site in sites() if not site.message.startswith("*") or " must " in site.message]
    assert [site for site in texts if " must " not in site.message and not site.message.startswith("Cannot ")] == []
    assert len(texts) > 200


def test_the_page_is_up_to_date():
    assert PAGE.read_text(encoding="utf-8") == page(), "run python -m lathe.scheduler.inspect.limits"


def test_the_page_lists_each_message_once():
    lines = [line for line in page().split("## Layers of networks")[0].splitlines() if line.startswith("- ")]
    assert len(lines) == len({(site.path, site.message) for site in sites() if site.kind == "limit"})
    assert not [line for line in lines if "{" in line or "**" in line]


def test_the_page_lists_why_layers_stay_with_the_host():
    listed = page().split("## Layers of networks")[1]
    assert len({each.message for each in reasons()}) > 50
    assert [each.message for each in reasons() if f"- {each.message}\n" not in listed] == []
    assert any(line.startswith("- ") and "weights" in line for line in listed.splitlines())


def products() -> tuple[Tensor, Schedule]:
    A, B, k = placeholder((64, 64), "int8", "A"), placeholder((64, 64), "int8", "B"), reduce_axis((0, 64), "k")
    C = compute((64, 64), lambda i, j: sum(A[i, k].astype("int32") * B[j, k].astype("int32"), axis=k), "C")
    D = compute(C.shape, lambda i, j: C[i, j] + C[63 - i, j], "D")
    return C, create_schedule(D)


def in_acc_whole(s: Schedule, C: Tensor) -> None:
    s[C].set_scope("acc")
    s[C].emit_insn(s[C].axis[0], "gemm")
    build(s, [*(read.tensor for read in s[C].op.reads), s.outputs[0]], TINY)


REFUSALS = {
    "argument": lambda s, C: s[C].split("q", 4),
    "legality": lambda s, C: s[s.outputs[0]].after(s[C], "i"),
    "machine": in_acc_whole,
    "limit": lambda s, C: s[C].fuse("j", "k"),
}


@pytest.mark.parametrize("kind", REFUSALS)
def test_an_error_says_why_something_is_refused(kind):
    C, s = products()
    with pytest.raises(lt.LatheError) as caught:
        REFUSALS[kind](s, C)
    assert caught.value.kind == kind


def test_tensor_errors_are_of_kind_argument():
    with pytest.raises(lt.TensorError) as caught:
        placeholder((0,), "int8", "A")
    assert caught.value.kind == "argument"


def test_a_primitive_that_is_illegal_for_bound_parameters_is_of_the_same_kind():
    n = lt.parameter("n", typical=8)
    A = placeholder((n,), "int32", "A")
    P = compute((n,), lambda i: A[i] + 1, "P")
    Q = compute((n,), lambda i: P[i] * 2, "Q")
    s = create_schedule(Q)
    s[P].store_in(lambda i: [i % 8])
    with pytest.raises(lt.ScheduleError) as caught:
        lt.bind(s, {"n": 9})
    assert caught.value.kind == "legality"


def test_explanations_have_the_kind_too():
    C, s = products()
    s[C].set_scope("acc")
    assert {refusal.kind for refusal in explain(s, TINY).refusals} == {"machine"}
