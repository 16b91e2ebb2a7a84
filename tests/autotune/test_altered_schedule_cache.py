"""Altered schedule caches: entries that do not match their digest are tuned again, and never give a wrong program."""

import sqlite3
from contextlib import closing

import pytest
from error_checks import check_mentions, raises

import lathe as lt
from lathe.autotune.cache_rows import digest_of

VTA = lt.load_config("vta")


def shifted(bits, rows=16):
    data = lt.placeholder((rows, 16), "int8", name="data")
    output = lt.requantise(
        lt.compute((rows, 16), lambda y, x: data[y, x].astype("int32") + 1, name="c"), bits, name="o"
    )
    return output, [data, output]


def build(cache, bits=1, **options):
    output, tensors = shifted(bits)
    return lt.build(output, tensors, VTA, budget=2, cache=cache, **options)


def same(one, other):
    return one.instructions == other.instructions and one.header() == other.header()


def execute(cache, *statements):
    with closing(sqlite3.connect(cache.path)) as connection, connection:
        for statement, *given in statements:
            connection.execute(statement, given)


def alter(cache, **columns):
    """Change columns of all schedules, with a matching digest."""
    with closing(sqlite3.connect(cache.path)) as connection, connection:
        rows = connection.execute("select key, steps, cycles, tried from schedules").fetchall()
        for row in rows:
            values = {**dict(zip(("key", "steps", "cycles", "tried"), row, strict=True)), **columns}
            connection.execute(
                "update schedules set steps = ?, cycles = ?, tried = ?, digest = ? where key = ?",
                (values["steps"], values["cycles"], values["tried"], digest_of(*values.values()), row[0]),
            )


def test_rows_that_are_swapped_between_keys_are_replaced(cache, searches):
    """Each row is intact, but belongs to another program."""
    right = [build(cache, bits) for bits in (1, 3)]
    for table, columns in (("programs", "digest, content"), ("schedules", "steps, cycles, tried, digest")):
        with closing(sqlite3.connect(cache.path)) as connection, connection:
            rows = connection.execute(f"select key, {columns} from {table}").fetchall()
            for (key, *_), (_, *other) in zip(rows, rows[::-1], strict=True):
                names = columns.split(", ")
                set_to = ", ".join(f"{name} = ?" for name in names)
                connection.execute(f"update {table} set {set_to} where key = ?", (*other, key))
    assert cache.export(cache.path.with_name("exported.db")) == 0
    assert len(searches) == 2
    for _ in range(2):
        assert all(same(build(cache, bits), program) for bits, program in zip((1, 3), right, strict=True))
        assert len(searches) == 4


@pytest.mark.sample(2)
@pytest.mark.parametrize(
    "change",
    ["steps = '[]'", "cycles = 1", "cycles = 'many'", "tried = '[[\"default schedule\", 1]]'", "digest = ''"],
)
def test_altered_rows_are_tuned_again(change, cache, searches):
    output, _ = shifted(1, 512)
    right = lt.autoschedule(output, VTA, budget=6, cache=cache)
    assert right.steps
    execute(cache, (f"update schedules set {change}",))
    for _ in range(2):
        found = lt.autoschedule(output, VTA, budget=6, cache=cache)
        assert (found.steps, found.cycles, found.tried) == (right.steps, right.cycles, right.tried)
        assert len(searches) == 2


SPLIT = '[{"command": "split", "about": "o", "loops": [["data", %s, %s]], "factor": %s}]'


@pytest.mark.sample(6)
@pytest.mark.parametrize(
    "columns",
    [
        {"steps": SPLIT % ("1e400", '""', "2")},
        {"steps": SPLIT % ("0", '""', "Infinity")},
        {"steps": SPLIT % ("0", '""', "2.5")},
        {"steps": SPLIT % ("0", "3", "2")},
        {"steps": '[{"command": "set_scope", "about": null, "scope": "acc"}]'},
        {"steps": "[" * 100000},
        {"steps": b"[]"},
        {"tried": '[["a", 1e999]]'},
        {"tried": '[["a", -1]]'},
        {"tried": "[" * 100000},
        {"cycles": 0},
        {"cycles": 2.5},
    ],
    ids=lambda columns: " ".join(f"{name} {str(value)[-30:]}" for name, value in columns.items()),
)
def test_rows_with_invalid_content_are_tuned_again(columns, cache, searches):
    """Infinities and deeply nested lists, which JSON allows, are invalid in a schedule."""
    output, _ = shifted(1)
    right = lt.autoschedule(output, VTA, budget=2, cache=cache)
    alter(cache, **columns)
    for _ in range(2):
        found = lt.autoschedule(output, VTA, budget=2, cache=cache)
        assert (found.steps, found.cycles, found.tried) == (right.steps, right.cycles, right.tried)
        assert len(searches) == 2


@pytest.mark.parametrize("path", ["a\0b", "a\ud800b"])
def test_an_invalid_path(path):
    raises(
        lt.ScheduleCacheError, lt.ScheduleCache, path, mentions=("Path of a schedule cache", f"not {path!r}", "null")
    )


def test_a_path_that_is_too_long_is_not_used():
    """Nor is any other file that cannot be opened."""
    cache, name = lt.ScheduleCache("a" * 5000), repr("a" * 5000)
    assert build(cache).instructions
    raises(lt.ScheduleCacheError, cache.export, "b", mentions=("Cannot read schedule cache", name))
    raises(lt.ScheduleCacheError, lt.ScheduleCache("b").include, "a" * 5000, mentions=("no such file", name))


@pytest.mark.parametrize(
    ("statements", "name", "found"),
    [
        (["drop table programs"], "programs", "missing"),
        (["drop table programs", "drop table schedules"], "schedules", "missing"),
        (
            ["alter table programs drop column digest"],
            "programs",
            "'CREATE TABLE programs (key text primary key, content blo...",
        ),
        (
            ["drop table schedules", "create table schedules (key, steps, cycles, tried, digest)"],
            "schedules",
            "'CREATE TABLE schedules (key, steps, cycles, tried, digest)'",
        ),
    ],
    ids=["no programs", "no table", "no column", "another table"],
)
def test_a_file_with_altered_tables_is_replaced(statements, name, found, cache, searches):
    right = build(cache)
    execute(cache, *((statement,) for statement in statements))
    mentions = (f"Table {name!r}", repr(str(cache.path)), f"not {found}")
    with pytest.raises(lt.ScheduleCacheError) as refused:
        lt.ScheduleCache(cache.path.with_name("other.db")).include(cache.path)
    check_mentions(refused.value, *mentions)
    for _ in range(2):
        assert same(build(cache), right)
        assert len(searches) == 2
    assert cache.path.with_name("schedules.db.unreadable").is_file()


def test_a_file_with_damaged_pages_is_replaced(cache, searches):
    """Its header is intact, so that the damage is detected when rows are read or written; that result is not cached."""
    right = build(cache)
    with closing(sqlite3.connect(cache.path)) as connection:
        (size,) = connection.execute("pragma page_size").fetchone()
    content = cache.path.read_bytes()
    cache.path.write_bytes(content[:size] + b"\xff" * (len(content) - size))
    for _ in range(4):
        assert same(build(cache), right)
    assert len(searches) < 4
    assert cache.path.with_name("schedules.db.unreadable").is_file()


UNMAPPED = '[{"command": "set_scope", "about": "c", "scope": "inp"}]'
"""A legal primitive for a stage that no instruction then computes."""


@pytest.mark.parametrize("check", [False, True])
def test_cached_schedules_that_do_not_map_are_tuned_again_when_they_are_built(check, cache, searches):
    right = build(cache)
    alter(cache, steps=UNMAPPED)
    execute(cache, ("delete from programs",))
    output, tensors = shifted(1)
    with pytest.raises(lt.EmitError):
        lt.build(lt.autoschedule(output, VTA, budget=2, cache=cache), tensors, VTA)
    assert len(searches) == 1
    assert same(build(cache, check=check), right)
    assert len(searches) == 2
    execute(cache, ("delete from programs",))
    assert same(build(cache), right)
    assert len(searches) == 2


@pytest.mark.slow
def test_cached_schedules_that_do_not_map_are_tuned_again_when_they_are_explained(cache, searches, monkeypatch):
    monkeypatch.setattr(lt.ScheduleCache, "default", classmethod(lambda _: cache))
    output, _ = shifted(1)
    right = str(lt.explain(output, VTA, budget=2))
    alter(cache, steps=UNMAPPED)
    for _ in range(2):
        assert str(lt.explain(output, VTA, budget=2)) == right
        assert len(searches) == 2


def test_cached_cycles_must_be_those_of_the_fastest_candidate(cache, searches):
    output, _ = shifted(1)
    right = lt.autoschedule(output, VTA, budget=2, cache=cache)
    for columns in ({"cycles": 1}, {"tried": "[]"}):
        alter(cache, **columns)
        assert lt.autoschedule(output, VTA, budget=2, cache=cache).report() == right.report()
    assert len(searches) == 3


def test_constants_are_checked_before_the_search(cache, searches):
    """Invalid constants do not invalidate a cached schedule, and start no search."""
    output, tensors = shifted(1)
    with pytest.raises(lt.BuildError, match="constants of build must be inputs of the program"):
        lt.build(output, tensors, VTA, budget=2, cache=cache, constants={"x": 1})
    with pytest.raises(lt.BuildError, match="constants of build must map names of inputs to arrays, not be 3"):
        lt.build(output, tensors, VTA, budget=2, cache=cache, constants=3)
    assert searches == []
