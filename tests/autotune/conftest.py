"""A schedule cache for each test, and a count of searches."""

from importlib import import_module

import pytest

import lathe as lt


@pytest.fixture
def cache(tmp_path):
    return lt.ScheduleCache(tmp_path / "schedules.db")


@pytest.fixture
def searches(monkeypatch):
    """A list that gets an entry for each search."""
    count = []
    module = import_module("lathe.autotune.autoschedule")  # the package has a function of that name
    run = module._Search.run

    def counted(search):
        count.append(1)
        run(search)

    monkeypatch.setattr(module._Search, "run", counted)
    return count
