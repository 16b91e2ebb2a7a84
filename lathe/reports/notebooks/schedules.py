"""Schedules in notebooks: tensors, stages with their loops and memories, and results of analyses."""

from itertools import chain

from lathe.autotune import TunedSchedule
from lathe.configs import LatheError, load_config
from lathe.configs.html_repr import html_of
from lathe.frontend import Computation, Tensor
from lathe.reports.markup import Markup, element
from lathe.reports.notebooks.fragments import facts, folded, grouped, panel, percent, table, text_block
from lathe.scheduler import (
    Bound,
    Counts,
    Dependence,
    Explanation,
    PaddingNeeded,
    QueryResult,
    Schedule,
    Stage,
    TensorLayout,
)
from lathe.scheduler.inspect.print_levels import level
from lathe.scheduler.loop_ir.compute_locations import place_stages

LEVELS = ("order", "loops")
"""Levels of the schedule before passes for a machine."""


@html_of.register
def tensor(value: Tensor) -> str:
    """A tensor, and how it is computed."""
    parts = [facts([("dtype", value.dtype), ("shape", " × ".join(map(str, value.shape)) or "scalar")])]
    if value.computation is not None:
        parts.append(text_block(str(value.computation)))
    return panel(f"Tensor {value.name}", *parts)


@html_of.register
def computation(value: Computation) -> str:
    """The definition of a computation's elements."""
    return panel(f"Computation {value.name}", text_block(str(value)))


@html_of.register
def schedule(value: Schedule) -> str:
    """The stages of a schedule, with their loops, and its levels in collapsible sections."""
    return panel(f"Schedule of {', '.join(each.name for each in value.program)}", *_schedule(value))


@html_of.register
def found_schedule(value: TunedSchedule) -> str:
    """An autotuned schedule: its cycles, the other candidates, and the script that creates it."""
    head = facts([
        ("machine", value.machine),
        ("cycles", value.cycles),
        ("bound", f"{grouped(value.bound)} cycles, by {value.limit}"),
        ("bound / cycles", percent(value.bound / value.cycles)),
    ])  # fmt: skip
    ran = sorted((each for each in value.tried if each.cycles is not None), key=lambda each: each.cycles or 0)
    tried = table(("candidate", "cycles"), [(each.what, each.cycles) for each in ran])
    parts = [folded(f"{len(value.tried)} candidates, the fastest first", tried)]
    parts.append(folded("The script that creates it", text_block(value.script)))
    title = f"Autotuned schedule of {', '.join(each.name for each in value.program)}"
    return panel(title, head, *parts, *_schedule(value))


@html_of.register
def stage(value: Stage) -> str:
    """One stage of a schedule: its loops, and what it computes."""
    return panel(f"Stage {value.name}", _stages([value]), text_block(str(value.op)))


@html_of.register
def explanation(value: Explanation) -> str:
    """The rule that matches the chunks of each stage, or why none does, and the use of scratchpads."""
    rows = [
        (each.stage, each.scope, each.count, _iterations(each.loops), _rules(each.taken), each.instructions,
         each.constraint)
        for each in value.classes
    ]  # fmt: skip
    columns = ("stage", "in", "chunks", "loops of a chunk", "rule", "instructions", "failed constraint")
    refused = any(each.constraint for each in value.classes)
    classes = table(columns if refused else columns[:-1], rows if refused else [row[:-1] for row in rows])
    taken = {scope: sum(each.elements * each.slots for each in value.buffers if each.scope == scope)
             for scope, _ in value.depths}  # fmt: skip
    memories = table(
        ("scratchpad", "vectors", "used", "share"),
        [(scope, depth, taken[scope], percent(taken[scope] / depth)) for scope, depth in value.depths if taken[scope]],
    )
    reasons = [("", str(each)) for each in value.refusals]
    parts = [*([table(("", "errors"), reasons)] if reasons else []), classes, memories]
    title = f"On {value.machine}: {'maps' if value.maps else 'does not map'}"
    return panel(title, *parts, folded("The same as text", text_block(str(value))))


@html_of.register
def bound(value: Bound) -> str:
    """The lower bound on cycles of any schedule, and its terms."""
    head = facts([
        ("at least", f"{grouped(value.cycles)} cycles, bound by {value.limit}"),
        ("compute", f"{grouped(value.compute)} cycles"),
        ("memory", f"{grouped(value.memory)} cycles for {grouped(value.bytes)} bytes"),
    ])  # fmt: skip
    rows = [(each.name, each.unit, each.gemm, each.reset, each.alu, each.rescale) for each in value.stages]
    stages = table(
        ("stage", "unit", "GEMM", "reset", "ALU", "RESCALE"), rows, left=2, note="Issue cycles of the units."
    )
    moved = chain.from_iterable(
        ((name, kind, count) for name, count in getattr(value, kind).items())
        for kind in ("inputs", "weights", "parameters", "outputs")
    )
    return panel(f"Bound on {value.machine}", head, stages, table(("tensor", "of", "bytes"), list(moved), left=2))


@html_of.register
def counts(value: Counts) -> str:
    """The instances that a schedule executes, and the bytes that it transfers."""
    rows = [(name, each.executed, each.distinct, each.redundant) for name, each in value.stages.items()]
    stages = table(("stage", "instances", "distinct", "redundant"), rows)
    return panel("Counts of the schedule", stages, folded("All counts", text_block(str(value))))


@html_of.register
def answer(value: QueryResult) -> str:
    """The answer, its reason, and its witness."""
    shown = [] if value.witness is None else [text_block(str(value.witness))]
    return panel("Yes" if value.holds else "No", element("div", value.reason), *shown)


@html_of.register
def dependence(value: Dependence) -> str:
    """A dependence between stages."""
    return panel("Dependence", text_block(str(value)))


@html_of.register
def padding_needed(value: PaddingNeeded) -> str:
    """The value that the padding of a tensor must have, and what requires it."""
    return panel(f"Padding of {value.tensor}", text_block(str(value)))


@html_of.register
def tensor_layout(value: TensorLayout) -> str:
    """The layout of a tensor in DRAM."""
    return panel(f"Layout of {value.tensor.name}", text_block(str(value)))


def _schedule(value: Schedule) -> list[Markup]:
    parts = [_stages(value.stages)]
    for name in LEVELS:
        try:
            text = level(value, load_config("vta"), name, given=True)
        except LatheError as error:  # for example because of unbound parameters
            text = str(error)
        parts.append(folded(f"Level: {name}", text_block(text)))
    return parts


def _stages(stages: "list[Stage] | tuple[Stage, ...]") -> Markup:
    rows = []
    for each in stages:
        state, location = each.state, each.state.attachment
        where = "" if location is None or each.enclosing is None else f"{location.axis.name} of {each.enclosing.name}"
        shape = " × ".join(map(str, each.tensor.shape))
        rows.append((each.name, f"{each.tensor.dtype} {shape}", state.scope, _loops(each), where))
    return table(("stage", "computes", "in", "loops, outermost first", "inside loop"), rows, left=5)


def _loops(value: Stage) -> str:
    """The loops of a stage with their extents and annotations."""
    state, placed = value.state, place_stages(value.schedule)[value]
    texts = []
    for leaf in state.leaves:
        extents = "×".join(str(each.extent) for each in placed.loops.of_leaf.get(leaf, ()))
        tags = [f"emit_insn {state.pragma}"] if leaf is state.pragma_axis else []
        tags += [state.annotations[leaf]] if leaf in state.annotations else []
        tags += ["unroll"] if leaf in state.unrolled else []
        tags += [f"vthread {state.threads[leaf]}"] if leaf in state.threads else []
        tags += ["reduce"] if leaf.kind == "reduce" else []
        suffix = f" ({', '.join(tags)})" if tags else ""
        texts.append(f"{leaf.name} {extents}".rstrip() + suffix)
    return ", ".join(texts)


def _iterations(loops: tuple[tuple[str, int], ...]) -> str:
    return ", ".join(f"{name} {extent}" for name, extent in loops)


def _rules(taken: tuple[tuple[str, int], ...]) -> str:
    return ", ".join(rule if count == 1 else f"{count} × {rule}" for rule, count in taken)
