"""Networks are compiled in every test, whatever the user's cache holds."""

import pytest

import lathe as lt


@pytest.fixture(autouse=True)
def no_cache(monkeypatch):
    monkeypatch.setattr(lt.ScheduleCache, "default", classmethod(lambda _: None))
