"""The schedule explorer: the lowering levels of each schedule side by side, with the statement of each line."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from lathe.reports.columns import packed, packed_lines
from lathe.reports.markup import Markup, element
from lathe.reports.page import section
from lathe.reports.run_model import Run, Stream
from lathe.scheduler.inspect.annotated_levels import marked_levels, statements_of
from lathe.scheduler.loop_ir.printer import Line


def explorer_section(run: Run) -> list[Markup]:
    """The section of the explorer, if schedules of the run are known."""
    if not any(each.compiled for each in run.streams):
        return []
    note = (
        "The lowering of a schedule to instructions for the machine. Click a line, or choose a statement: its lines "
        "are highlighted at every level, and its cycles on the timeline."
    )
    launch = element("select", id="explorer-launch", aria_label="Launch")
    statement = element("select", id="explorer-statement", aria_label="Statement")
    bar = element("div", launch, element("label", "Statement ", statement), class_="bar")
    levels = element("div", id="levels")
    return [section("Schedule", bar, levels, id_="schedule-part", note=note)]


def levels_data(run: Run) -> dict[str, Any]:
    """The explorer's data: the levels of all launches with known schedules, and each instruction's provenance.

    ``stage_of`` an instruction and ``stage`` of a line are indices in ``stages``, or -1 for none.
    """
    if not any(each.compiled for each in run.streams):
        return {}
    stages: list[dict[str, Any]] = []
    launches, stage_of, origins, chunk_of = [], [], [], []
    chunks: list[str] = []
    for number, stream in enumerate(run.streams):
        count = len(stream.result.program.instructions)
        if stream.compiled is None:
            stage_of += [-1] * count
            origins += [""] * count
            chunk_of += [-1] * count
            continue
        indices = _stages(stream, number, stages)
        levels = marked_levels(stream.compiled)
        launches.append({"launch": number, "levels": [_level(name, lines, indices) for name, lines in levels.items()]})
        stage_of += [indices.get(origin.stage, -1) for origin in stream.compiled.origins]
        origins += [str(origin) for origin in stream.compiled.origins]
        chunk_of += [origin.chunk + len(chunks) if origin.chunk >= 0 else -1 for origin in stream.compiled.origins]
        chunks += [each.text for each in stream.compiled.chunks]
    return {
        "levels": {
            "stages": stages,
            "launches": launches,
            "stage_of": packed(np.array(stage_of, np.int64)),
            "origins": packed_lines(origins),
            "chunk_of": packed(np.array(chunk_of, np.int64)),
            "chunks": packed_lines(chunks),
        }
    }


def _stages(stream: Stream, launch: int, stages: list[dict[str, Any]]) -> dict[str, int]:
    """Append the stages of a launch, and other tensors of its algorithm, to ``stages``; returns their indices."""
    assert stream.compiled is not None
    statements = statements_of(stream.compiled)
    names = dict.fromkeys([*statements.values(), *statements])
    indices = {}
    for name in names:
        indices[name] = len(stages)
        stages.append({"name": name, "launch": launch, "statement": statements.get(name, name)})
    return indices


def _level(name: str, lines: Sequence[Line], indices: dict[str, int]) -> dict[str, Any]:
    return {
        "name": name,
        "text": packed_lines([line.text for line in lines]),
        "stage": packed(np.array([indices.get(line.stage, -1) for line in lines], np.int64)),
        "instruction": packed(np.array([line.instruction for line in lines], np.int64)),
    }
