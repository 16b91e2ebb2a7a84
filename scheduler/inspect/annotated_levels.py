"""Every IR level of a compiled schedule as lines annotated with their stage, so that a stage can be traced down."""

from collections.abc import Iterator

from lathe.frontend import placeholders, topological
from lathe.frontend.expr.text import format_computation, format_placeholder
from lathe.scheduler.codegen.compiled_program import Compiled
from lathe.scheduler.inspect.print_levels import communication_lines, data_lines, instruction_lines, order_lines
from lathe.scheduler.isel.resolve_selects import resolve_selects, with_rules
from lathe.scheduler.loop_ir.build_nest import build_nest
from lathe.scheduler.loop_ir.partition import partition
from lathe.scheduler.loop_ir.printer import Line, nest_lines

LEVELS = ("algorithm", "order", "data", "communication", "loops", "chunks", "instructions")


def marked_levels(compiled: Compiled) -> dict[str, list[Line]]:
    """The lines of each of ``LEVELS``, as ``lower`` prints them; instructions are numbered in stream order."""
    schedule, config = compiled.schedule, compiled.program.config
    return {
        "algorithm": [*_algorithm(compiled)],
        "order": order_lines(schedule),
        "data": data_lines(schedule, config),
        "communication": communication_lines(compiled),
        "loops": nest_lines(build_nest(schedule)),
        "chunks": nest_lines(with_rules(resolve_selects(partition(build_nest(schedule, largest_blocks=True))))),
        "instructions": instruction_lines(compiled),
    }


def statements_of(compiled: Compiled) -> dict[str, str]:
    """For each stage of the lowered schedule, by name, the computation or input of the algorithm that it belongs to.

    Stages that passes insert are named after their source, as ``A.inp``; any other stage belongs to itself.
    """
    names = [name for name, _ in _blocks(compiled)]
    statements = {}
    for stage in compiled.schedule.stages:
        candidates = [name for name in names if stage.name == name or stage.name.startswith(f"{name}.")]
        statements[stage.name] = max(candidates, key=len, default=stage.name)
    return statements


def _blocks(compiled: Compiled) -> Iterator[tuple[str, str]]:
    """Name and text of each input and computation of the algorithm."""
    program = compiled.schedule.program
    yield from ((tensor.name, format_placeholder(tensor)) for tensor in placeholders(program))
    yield from ((each.name, format_computation(each)) for each in topological(program))


def _algorithm(compiled: Compiled) -> Iterator[Line]:
    for name, text in _blocks(compiled):
        lines = text.splitlines()
        if len(lines) > 1:
            yield Line("")
        yield from (Line(line, name) for line in lines)
