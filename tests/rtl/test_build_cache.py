"""The cache of Verilated machines: one build for several processes, and never one of another version."""

import errno
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from lathe.configs import load_config
from lathe.rtl.derived_widths import RtlError
from lathe.rtl.engines import build
from lathe.rtl.engines.verilator import _loaded

ROOT = Path(__file__).parents[2]

# A process that wants a library, and whose build writes its number into a log and takes a while.
PROCESS = """
import sys, time
from pathlib import Path
from lathe.configs import load_config
from lathe.rtl.engines import build

def slow(config, folder, *_):
    with Path(sys.argv[1]).open("a") as log:
        log.write("began\\n")
    library = folder / "machine.so"
    library.write_text("half")
    time.sleep(float(sys.argv[2]))
    library.write_text("whole")
    return library

build._build = slow
found = build.library(load_config("tiny"))
print(found.name, found.read_text())
"""


@pytest.fixture
def cache(tmp_path, monkeypatch):
    monkeypatch.setenv("LATHE_CACHE", str(tmp_path / "cache"))
    return tmp_path / "cache"


def process(log, seconds):
    return subprocess.Popen([sys.executable, "-c", PROCESS, log, str(seconds)], stdout=subprocess.PIPE, text=True)


def begun(log):
    """Waits until a build has begun."""
    while not log.exists():
        time.sleep(0.01)


def test_processes_that_want_the_same_build_at_once_make_it_once(cache, tmp_path):
    log = tmp_path / "log"
    told = [each.communicate()[0].split() for each in [process(log, 0.5) for _ in range(3)]]
    assert log.read_text() == "began\n"
    assert told == [told[0]] * 3
    assert told[0][1] == "whole"
    assert [path.name for path in cache.glob("*.so")] == [told[0][0]]
    assert list(cache.glob("build-*")) == []


def test_a_build_that_was_killed_is_made_again(cache, tmp_path):
    log = tmp_path / "log"
    first = process(log, 60)
    begun(log)
    waiting = process(log, 0)
    first.send_signal(signal.SIGKILL)
    first.communicate()
    assert waiting.communicate()[0].split()[1] == "whole"
    assert log.read_text() == "began\nbegan\n"
    assert len(list(cache.glob("*.so"))) == 1
    assert not list(cache.glob("build-*"))


@pytest.mark.slow
def test_two_processes_build_and_run_a_machine_at_once(cache):
    run = (
        "import lathe as lt\n"
        "config = lt.load_config('tiny').with_(block_in=2, block_out=2, inp_buffer_bytes=256, wgt_buffer_bytes=256,"
        " acc_buffer_bytes=1024, uop_buffer_bytes=256, **{'memory.burst_beats': 4, 'timing.dma_fifo_beats': 8})\n"
        "A = lt.placeholder((3, 5), 'int8', name='A')\n"
        "B = lt.relu(A, name='B')\n"
        "program = lt.build(B, [A, B], config)\n"
        "import numpy as np\n"
        "print(lt.cosimulate(program, {'A': np.ones((3, 5), np.int8)}).check().cycles)\n"
    )
    both = [subprocess.Popen([sys.executable, "-c", run], stdout=subprocess.PIPE, text=True) for _ in range(2)]
    one, other = (each.communicate()[0] for each in both)
    assert one == other
    assert int(one) > 0
    assert len(list(cache.glob("*.so"))) == len(list(cache.glob("runtime-*.o"))) == 1


@pytest.fixture
def sources(tmp_path, monkeypatch):
    """A copy of the rooms that the hardware is made from, in the place of Lathe's own."""
    house = tmp_path / "lathe"
    for room in ("configs", "isa", "rtl"):
        shutil.copytree(ROOT / room, house / room, ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr(build, "__file__", str(house / "rtl" / "engines" / "build.py"))
    monkeypatch.setattr(build, "HERE", house / "rtl" / "engines")
    monkeypatch.setattr(build, "_sources", build._sources.__wrapped__)
    return house


def built(folder_of_cache, monkeypatch, content):
    """What `library` gives when a build would make `content`."""

    def make(_config, folder, *_):
        (folder / "machine.so").write_text(content)
        return folder / "machine.so"

    monkeypatch.setattr(build, "_build", make)
    found = build.library(load_config("tiny"))
    assert found.parent == folder_of_cache
    return found.read_text()


@pytest.mark.parametrize(
    "name", ["rtl/alu.py", "rtl/stall.py", "isa/table.py", "configs/encoding.py", "rtl/engines/harness.cpp",
             "rtl/engines/dram.h", "rtl/engines/build.py"],
)  # fmt: skip
def test_a_build_of_other_sources_is_not_used(name, cache, sources, monkeypatch):
    assert built(cache, monkeypatch, "old") == "old"
    assert built(cache, monkeypatch, "never") == "old"
    original = (sources / name).read_bytes()
    (sources / name).write_bytes(original + b"\n")
    assert built(cache, monkeypatch, "new") == "new"
    (sources / name).write_bytes(original)
    assert built(cache, monkeypatch, "never") == "old"


def test_a_build_of_a_source_that_is_no_more_is_not_used(cache, sources, monkeypatch):
    assert built(cache, monkeypatch, "old") == "old"
    (sources / "rtl" / "banking.py").rename(sources / "rtl" / "tracks.py")
    assert built(cache, monkeypatch, "new") == "new"


@pytest.mark.usefixtures("sources")
def test_a_build_of_another_compiler_amaranth_or_option_is_not_used(cache, monkeypatch, tmp_path):
    import amaranth

    assert built(cache, monkeypatch, "old") == "old"
    with monkeypatch.context() as changed:
        changed.setattr(amaranth, "__version__", "0.5.99")
        assert built(cache, changed, "amaranth") == "amaranth"
    with monkeypatch.context() as changed:
        changed.setattr(build, "COMPILER_OPTIONS", (*build.COMPILER_OPTIONS, "-g"))
        assert built(cache, changed, "option") == "option"
    with monkeypatch.context() as changed:
        compiler = tmp_path / "c++"
        compiler.write_text("#!/bin/sh\necho another compiler\n")
        compiler.chmod(0o755)
        changed.setenv("CXX", str(compiler))
        assert built(cache, changed, "compiler") == "compiler"
    assert built(cache, monkeypatch, "never") == "old"


def test_the_memory_behind_the_bus_needs_no_build_and_the_hardware_does(cache, monkeypatch):
    made = []

    def make(config, folder, *_):
        made.append(config)
        (folder / "machine.so").write_text("")
        return folder / "machine.so"

    monkeypatch.setattr(build, "_build", make)
    tiny = load_config("tiny")
    outside = {"memory.latency": 99, "memory.cycles_per_beat": 3, "memory.shared_bandwidth": False}
    assert build.library(tiny) == build.library(tiny.with_(name="other", **outside))
    assert len(made) == 1
    for change in (
        {"memory.burst_beats": 2},
        {"memory.outstanding_reads": 2},
        {"timing.gemm_pipeline": 9},
        {"timing.response_latency": 3},
        {"block_in": 8},
    ):
        build.library(tiny.with_(**change))
    assert len(made) == 6
    assert len({path.name for path in cache.glob("*.so")}) == 6


DAMAGE = {
    "empty": lambda content: b"",  # noqa: ARG005
    "truncated": lambda content: content[:-3],
    "flipped": lambda content: bytes([content[0] ^ 1]) + content[1:],
    "longer": lambda content: content + b"x",
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_library_is_built_again(damage, cache, monkeypatch):
    assert built(cache, monkeypatch, "the library") == "the library"
    (path,) = cache.glob("*.so")
    path.write_bytes(DAMAGE[damage](path.read_bytes()))
    assert built(cache, monkeypatch, "another build") == "another build"
    assert built(cache, monkeypatch, "never") == "another build"
    assert sorted(each.suffix for each in cache.iterdir()) == [".lock", ".sha256", ".so"]


def test_a_library_without_its_checksum_is_built_again(cache, monkeypatch):
    assert built(cache, monkeypatch, "the library") == "the library"
    (path,) = cache.glob("*.sha256")
    path.write_bytes(b"\xff" * 64)
    assert built(cache, monkeypatch, "the second") == "the second"
    path.unlink()
    assert built(cache, monkeypatch, "the third") == "the third"


def refused_cache(path, monkeypatch):
    """The message about a cache that is no use."""
    monkeypatch.setenv("LATHE_CACHE", str(path))
    with pytest.raises(RtlError) as caught:
        build.library(load_config("tiny"))
    return str(caught.value)


def test_a_cache_that_is_a_file_or_below_one_is_refused(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    for place, answer in (("file", "File exists"), ("file/below", "Not a directory")):
        assert refused_cache(tmp_path / place, monkeypatch) == (
            f"The cache of Verilated machines, {str(tmp_path / place)!r}, must be a folder that can be written to, not "
            f"one that answers {answer!r}. Name another folder with the environment variable LATHE_CACHE."
        )


@pytest.mark.parametrize("step", ["TemporaryDirectory", "mkstemp"])
def test_a_cache_that_may_not_be_written_to_is_refused(step, cache, monkeypatch):
    def denied(*_, **__):
        raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))

    def make(_config, folder, *_):
        (folder / "machine.so").touch()
        monkeypatch.setattr(tempfile, step, denied)
        return folder / "machine.so"

    monkeypatch.setattr(build, "_build", make)
    if step == "TemporaryDirectory":
        monkeypatch.setattr(tempfile, step, denied)
    assert refused_cache(cache, monkeypatch) == (
        f"The cache of Verilated machines, {str(cache)!r}, must be a folder that can be written to, not one that "
        "answers 'Permission denied'. Name another folder with the environment variable LATHE_CACHE."
    )
    assert list(cache.glob("*.so")) == []


def test_without_a_home_the_cache_needs_a_name(monkeypatch):
    monkeypatch.delenv("LATHE_CACHE", raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(Path, "home", lambda: (_ for _ in ()).throw(RuntimeError("no home")))
    with pytest.raises(RtlError) as caught:
        build.cache_folder(build.PURPOSE)
    assert str(caught.value) == (
        "The cache of Verilated machines must have a folder, and there is no home. Name one with LATHE_CACHE."
    )


def test_the_cache_is_named_by_the_environment(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("LATHE_CACHE", "here")
    assert build.cache_folder(build.PURPOSE) == tmp_path / "here"
    monkeypatch.delenv("LATHE_CACHE")
    monkeypatch.setenv("XDG_CACHE_HOME", "there")
    assert build.cache_folder(build.PURPOSE) == tmp_path / "there" / "lathe"


def test_a_library_that_does_not_load_is_refused(tmp_path):
    path = tmp_path / "machine.so"
    path.write_text("no library")
    with pytest.raises(RtlError) as caught:
        _loaded(path)
    assert str(caught.value).startswith(f"The library of the machine, {str(path)!r}, must load, and does not: ")
    assert str(caught.value).endswith("Remove it, so that it is built again.")


def test_the_runtime_of_verilator_is_compiled_once_for_all_machines(cache, tmp_path, monkeypatch):
    """But again for other sources, and where the object is damaged."""
    include = tmp_path / "include"
    include.mkdir()
    (include / "verilated.h").write_text("1")
    made = []

    def compiler(command, folder, _environment):
        assert command[-3] == str(folder / "runtime.cpp")
        made.append(Path(command[-1]).write_text("object"))

    def runtime(number):
        (folder := cache / f"build-{number}").mkdir(parents=True)
        return Path(build._runtime(folder, include, "c++"))

    monkeypatch.setattr(build, "_run", compiler)
    monkeypatch.setattr(build, "_tool_version", lambda *_: "1")
    found = runtime(0)
    assert runtime(1) == found
    assert len(made) == 1
    found.write_text("half")
    assert runtime(2) == found
    assert (found.read_text(), len(made)) == ("object", 2)
    (include / "verilated.h").write_text("2")
    assert runtime(3) != found
    assert len(made) == 3
