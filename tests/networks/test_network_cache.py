"""Cache of compiled networks: a hit if nothing has changed, otherwise compiled again."""

import sqlite3
from contextlib import closing

import numpy as np
import pytest
from networks_checking import LATHE16, random_inputs
from qdq_models import QdqModel

import lathe as lt
import lathe.networks.network as network_module
import lathe.networks.network_cache as kept
from lathe.builder import validate_builds


@pytest.fixture
def cache(tmp_path):
    return lt.ScheduleCache(tmp_path / "schedules.db")


@pytest.fixture
def compiled(monkeypatch):
    """The machines of all compilations."""
    found = []
    build = network_module.build_with_stages

    def noted(outputs, tensors, config, constants):
        found.append(config.name)
        return build(outputs, tensors, config, constants)

    monkeypatch.setattr(network_module, "build_with_stages", noted)
    return found


def model(seed: int = 1):
    graph = QdqModel(seed=seed)
    return graph.model(graph.conv(graph.input(1, 8, 5, 6), 12, 1))


def test_a_network_is_compiled_once(cache, compiled):
    given = model()
    first = lt.from_onnx(given).build(LATHE16, cache=cache)
    again = lt.from_onnx(given).build(LATHE16, cache=cache)
    assert compiled == ["lathe16"]
    inputs = random_inputs(given)
    one, two = (lt.simulate(each, inputs) for each in (first, again))
    assert one.layers == two.layers
    assert all(np.array_equal(one.outputs[name], two.outputs[name]) for name in one.outputs)


def test_other_weights_machines_and_checks_are_compiled(cache, compiled):
    lt.from_onnx(model()).build(LATHE16, cache=cache)
    lt.from_onnx(model(2)).build(LATHE16, cache=cache)
    lt.from_onnx(model()).build(LATHE16.with_(**{"memory.latency": 0}), cache=cache)
    with validate_builds():
        lt.from_onnx(model()).build(LATHE16, cache=cache)
    lt.from_onnx(model()).build(LATHE16, cache=False)
    assert len(compiled) == 5


def test_a_damaged_cache_entry_is_compiled_again(cache, compiled):
    lt.from_onnx(model()).build(LATHE16, cache=cache)
    with sqlite3.connect(cache.path) as connection:
        connection.execute("update programs set content = zeroblob(100)")
    connection.close()
    lt.from_onnx(model()).build(LATHE16, cache=cache)
    assert len(compiled) == 2


def test_the_oldest_are_forgotten(cache, monkeypatch):
    lt.from_onnx(model()).build(LATHE16, cache=cache)
    monkeypatch.setattr(kept, "MOST_BYTES", 1)
    lt.from_onnx(model(2)).build(LATHE16, cache=cache)
    with sqlite3.connect(cache.path) as connection:
        assert connection.execute("select count(*) from programs").fetchone() == (0,)
    connection.close()
    cache.write_bytes("program x", b"of another kind")
    monkeypatch.setattr(kept, "MOST_BYTES", 1 << 20)
    for seed in (1, 2):
        lt.from_onnx(model(seed)).build(LATHE16, cache=cache)
    cache.forget_oldest(
        kept.KIND, len(cache.read_bytes(kept.network_key(lt.from_onnx(model(2)).model, LATHE16)) or b"")
    )
    assert cache.read_bytes(kept.network_key(lt.from_onnx(model()).model, LATHE16)) is None
    assert cache.read_bytes("program x") == b"of another kind"


def test_a_cache_is_one():
    with pytest.raises(lt.BuildError) as caught:
        lt.from_onnx(model()).build(LATHE16, cache="schedules.db")
    assert str(caught.value) == "cache of build must be a ScheduleCache, True or False, not 'schedules.db'."


def test_a_locked_file_is_waited_for_once(cache, compiled, monkeypatch):
    """Reading, writing and evicting all access the file."""
    cache.write_bytes("program x", b"something")
    waits = []
    connect = sqlite3.connect

    def noted(path, **options):
        waits.append(options["timeout"])
        return connect(path, **options)

    with closing(connect(cache.path, isolation_level=None)) as holder:
        holder.execute("begin exclusive")
        monkeypatch.setattr("lathe.autotune.schedule_cache.SECONDS", 0.02)
        monkeypatch.setattr("lathe.autotune.cache_lock.sqlite3.connect", noted)
        lt.from_onnx(model()).build(LATHE16, cache=cache)
    assert compiled
    assert waits == [0.02, 0, 0]
