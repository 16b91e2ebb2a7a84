"""The schedule explorer: the levels of each schedule beside each other, and the statement that each line is of."""

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
    """The place of the explorer, where schedules of the run are known."""
    if not any(each.compiled for each in run.streams):
        return []
    note = (
        "A schedule on its way to instructions, as it is completed for the machine. Click a line, or choose a "
        "statement: what became of it is marked on every level, and its cycles on the timeline."
    )
    launch = element("select", id="explorer-launch", aria_label="Launch")
    statement = element("select", id="explorer-statement", aria_label="Statement")
    bar = element("div", launch, element("label", "Statement ", statement), class_="bar")
    levels = element("div", id="levels")
    return [section("Schedule", bar, levels, id_="schedule-part", note=note)]


def levels_data(run: Run) -> dict[str, Any]:
    """As "levels", those of all launches whose schedules are known, and of each instruction where it comes from.

    ``stage`` of an instruction is a place in ``stages``, -1 for none; so is that of a line.
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
        places = _stages(stream, number, stages)
        levels = marked_levels(stream.compiled)
        launches.append(
            {
                "launch": number,
                "levels": [_level(name, lines, places) for name, lines in levels.items()],
            }
        )
        stage_of += [places.get(origin.stage, -1) for origin in stream.compiled.origins]
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
    """Put the stages of a launch, and what its algorithm has beside them, into ``stages``; returns their places."""
    assert stream.compiled is not None
    statements = statements_of(stream.compiled)
    names = dict.fromkeys([*statements.values(), *statements])
    places = {}
    for name in names:
        places[name] = len(stages)
        stages.append({"name": name, "launch": launch, "statement": statements.get(name, name)})
    return places


def _level(name: str, lines: Sequence[Line], places: dict[str, int]) -> dict[str, Any]:
    return {
        "name": name,
        "text": packed_lines([line.text for line in lines]),
        "stage": packed(np.array([places.get(line.stage, -1) for line in lines], np.int64)),
        "instruction": packed(np.array([line.instruction for line in lines], np.int64)),
    }
