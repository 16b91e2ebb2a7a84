"""Stall causes: names and numbers."""

from pathlib import Path

from lathe.isa import StallCause, TokenQueue, Unit
from lathe.isa.stall import QUEUE_CAUSES, TOKEN_CAUSES, TRACK_NAMES

TIMING = (Path(__file__).parents[2] / "docs" / "timing-model.md").read_text()


def test_causes_have_the_names_of_the_timing_model_page():
    for cause in StallCause:
        assert (f"`{cause}`" in TIMING) == (cause != StallCause.NONE)


def test_causes_are_found_by_queue_and_unit():
    assert [str(cause) for cause in TOKEN_CAUSES] == [queue.arrow for queue in TokenQueue]
    assert [str(QUEUE_CAUSES[unit]) for unit in Unit] == ["load queue", "compute queue", "store queue"]
    assert TRACK_NAMES == ("load", "compute", "store", "fetch")
