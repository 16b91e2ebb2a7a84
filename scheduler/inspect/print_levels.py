"""``lower``: the text of every IR level, from the algorithm to instructions with dependence tokens."""

from collections.abc import Iterable, Iterator, Mapping

from lathe.configs import HardwareConfig
from lathe.frontend import format_program
from lathe.isa import Unit, host_copies, instruction_text, unit_of
from lathe.scheduler.allocation.allocation import largest_size
from lathe.scheduler.codegen.compiled_program import Compiled
from lathe.scheduler.compile import lower_and_compile
from lathe.scheduler.isel.resolve_selects import resolve_selects, with_rules
from lathe.scheduler.layout.layout_assignment import assign_lanes
from lathe.scheduler.layout.physical_layout import physical_of
from lathe.scheduler.loop_ir.build_nest import build_nest
from lathe.scheduler.loop_ir.compute_locations import place_stages
from lathe.scheduler.loop_ir.partition import partition
from lathe.scheduler.loop_ir.printer import Line, format_nest
from lathe.scheduler.passes.pipeline import run_pipeline, run_until
from lathe.scheduler.schedule_ir.memories import DRAM
from lathe.scheduler.schedule_ir.schedule_state import ScheduleView, StageView
from lathe.scheduler.schedule_ir.stage import StageState, same_loop
from lathe.scheduler.schedule_ir.storage import StorageBuffer
from lathe.scheduler.schedule_ir.sync import tag_of
from lathe.scheduler.schedule_ir.user_buffers import UserBuffer, user_buffers_of


def level(schedule: ScheduleView, config: HardwareConfig, name: str, *, given: bool) -> str:
    """The text of one level of a schedule; ``given``: of the user's schedule, without the passes."""
    if name == "algorithm":
        return format_program(schedule.program)
    if name == "communication":
        return _text(communication_lines(lower_and_compile(schedule, config, {})))
    shown = run_pipeline(schedule, config) if name == "data" or not given else schedule
    if name == "order":
        return _text(order_lines(shown))
    if name == "data":
        before, after = _host_copies(schedule, config) if given else ("", "")
        return before + _text(data_lines(shown, config)) + after
    if name == "loops":
        return format_nest(build_nest(shown))
    chunks = resolve_selects(partition(build_nest(shown, largest_blocks=not given)))
    return format_nest(chunks if given else with_rules(chunks))


def after_pass(schedule: ScheduleView, config: HardwareConfig, name: str) -> str:
    """Order and nest of a schedule after a pass and all before it."""
    lowered = run_until(schedule, config, name)
    return f"{_text(order_lines(lowered))}{format_nest(build_nest(lowered))}"


def _text(lines: Iterable[Line]) -> str:
    return "\n".join(line.text for line in lines) + "\n"


def order_lines(schedule: ScheduleView) -> list[Line]:
    """The loops (bands) of all stages as a tree, each with its annotations, and the 2d+1 schedule of each stage."""
    lines: list[Line] = []
    placed = place_stages(schedule)

    def show(stage: StageView, depth: int) -> None:
        state = stage.state
        indent = "  " * depth
        times = []
        lines.append(Line(f"{indent}{stage.name}:{''.join(stage_tags(state))}", stage.name))
        for level, leaf in enumerate(state.own_leaves):
            tags = []
            if leaf is state.pragma_axis:
                tags.append(f"emit_insn {state.pragma}")
            if leaf in state.unrolled:
                tags.append("unroll")
            if leaf in state.annotations:
                tags.append(state.annotations[leaf])
            if leaf in state.threads:
                tags.append(f"vthread {state.threads[leaf]}")
            if leaf.kind == "reduce":
                tags.append("reduce")
            extents = "×".join(str(v.extent) for v in placed[stage].loops.of_leaf[leaf])
            suffix = f" @{', '.join(tags)}" if tags else ""
            lines.append(Line(f"{indent}  band {leaf.name} [{extents}]{suffix}", stage.name))
            times.append(leaf.name)
            for inner in schedule.attached(stage):
                assert inner.state.attachment is not None
                if inner.state.attachment.axis is leaf:
                    show(inner, depth + level + 2)
        lines.append(Line(f"{indent}  time {time_of(schedule, stage)}", stage.name))

    for stage in schedule.stages:
        if stage.state.attachment is None:
            show(stage, 0)
    return lines


def stage_tags(state: StageState) -> Iterator[str]:
    """Annotations of a stage: the rule selected for it, its buffering, and its manual synchronisation."""
    if state.rule is not None and state.pragma is None:
        yield f" @rule {state.rule}"
    if state.reuse:
        yield f" @reuse {state.reuse}"
    if state.buffer_count is not None:
        yield f" @double_buffer {state.buffer_count}"
    for signal in state.sync_ops:
        yield f" @{tag_of(signal)}"


def time_of(schedule: ScheduleView, stage: StageView) -> str:
    """The 2d+1 schedule of a stage: positions among its siblings and loops, alternating, outermost first."""
    attachment = stage.state.attachment
    if attachment is None:
        siblings = [each for each in schedule.stages if each.state.attachment is None]
        outer = ""
    else:
        siblings = [each for each in schedule.stages if same_loop(each.state.attachment, attachment)]
        anchor = schedule.at(attachment)
        inside = len(anchor.state.leaves) - anchor.state.leaves.index(attachment.axis) - 1
        own = time_of(schedule, anchor)[1:-1].split(", ")
        depth = len(own) - 2 * inside - 1
        outer = ", ".join(own[:depth]) + ", "
    position = siblings.index(stage)
    entries = [str(position)]
    for leaf in stage.state.own_leaves:
        attached = [each for each in schedule.attached(stage) if _is_attached_at(each, leaf)]
        entries += [leaf.name, str(len(attached))]
    return f"[{outer}{', '.join(entries)}]"


def _is_attached_at(stage: StageView, leaf: object) -> bool:
    return stage.state.attachment is not None and stage.state.attachment.axis is leaf


def data_lines(schedule: ScheduleView, config: HardwareConfig) -> list[Line]:
    """Scope, box, vector layout and size of every stage."""
    lines = []
    lanes, stored = assign_lanes(schedule, config), user_buffers_of(schedule.stages)
    for stage, placement in reversed(place_stages(schedule).items()):
        physical = physical_of(stage, lanes, config)
        box = ", ".join(
            f"{axis.name}: {low} + {extent}"
            for axis, low, extent in zip(stage.state.computation.axes, placement.low, placement.extent, strict=True)
        )
        names = [axis.name for axis in stage.state.computation.axes]
        own = lanes[stage.tensor]
        rows = names[own.rows] if own.rows is not None else "-"
        cols = names[own.cols] if own.cols is not None else "-"
        size = physical.count if stage.state.scope == DRAM else largest_size(placement, physical)
        text = (
            f"{stage.name}: {stage.state.scope} {stage.tensor.dtype}[{box}] "
            f"in {size} vectors of {physical.element.rows} ({rows}) × {physical.element.cols} ({cols})"
            f"{_cells(stage, stored)}"
        )
        lines.append(Line(text, stage.name))
    return lines


def _host_copies(schedule: ScheduleView, config: HardwareConfig) -> tuple[str, str]:
    """The host copies that the user has scheduled: before the launch, and after it."""
    if not schedule.host_copies:
        return "", ""
    steps = host_copies(lower_and_compile(schedule, config, {}).program)
    scheduled = {(direction, tensor.name) for direction, tensor in schedule.host_copies}
    shown = [each for each in steps if (each.direction, each.tensor) in scheduled]
    before = "".join(f"{each}\n" for each in shown if each.direction == "host_to_device")
    return before, "".join(f"{each}\n" for each in shown if each.direction == "device_to_host")


def _cells(stage: StageView, stored: Mapping[StorageBuffer, UserBuffer]) -> str:
    """The user's storage of a stage as text: the storage map, the buffer's shape, and the loop that allocates it."""
    storage = stage.state.storage
    if storage is None:
        return ""
    location = stage.schedule.allocations.get(storage.buffer)
    where = "" if location is None else f", allocated at {location.axis.name} of {stage.schedule.at(location).name}"
    return f", in cells {storage} of {list(stored[storage.buffer].shape)}{where}"


def instruction_lines(compiled: Compiled) -> list[Line]:
    """The instructions in stream order, each with its number and origin."""
    lines = []
    for number, (each, origin) in enumerate(zip(compiled.program.instructions, compiled.origins, strict=True)):
        note = f"  ; {origin}" if str(origin) else ""
        lines.append(Line(f"{number:5} {instruction_text(each)}{note}", origin.stage, number))
    return lines


def communication_lines(compiled: Compiled) -> list[Line]:
    """The instructions of each unit, with their tokens and origins, and the manual synchronisation between them."""
    result, instructions = [], instruction_lines(compiled)
    for unit in Unit:
        result.append(Line(f"{unit.name.lower()}:"))
        lines = [(at, text, "", -1) for at, text in compiled.lines_of(unit)]
        for each, line in zip(compiled.program.instructions, instructions, strict=True):
            if unit_of(each) == unit:
                lines.append((line.instruction, line.text, line.stage, line.instruction))
        for at, text, stage, number in sorted(lines):
            indent = " " * (2 if at == int(at) and text[0] != "b" else 8)
            result.append(Line(f"{indent}{text}", stage, number))
    return result
