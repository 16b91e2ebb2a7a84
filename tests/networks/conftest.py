"""Compile networks in every test, without the user's cache."""

import pytest

import lathe as lt


@pytest.fixture(autouse=True)
def no_cache(monkeypatch):
    monkeypatch.setattr(lt.ScheduleCache, "default", classmethod(lambda _: None))
