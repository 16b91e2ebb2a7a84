"""The page of a sweep's store."""

from pathlib import Path

from lathe.reports.page import Page, facts, section
from lathe.sweeps.store import reading_store
from lathe.sweeps.sweeping import flat_rows


def sweep_page(path: Path) -> Page:
    """The page of a store that `lathe sweep -o` has written. Raises SweepError for a file that is none."""
    with reading_store(path) as store:
        rows = flat_rows(store)
    return Page(path.name, "a sweep", [section("Summary", facts([("points", len(rows))]), id_="summary")])
