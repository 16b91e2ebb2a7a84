"""The cache of Verilated machines: one build serves several processes, and outdated builds are not used."""

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
from error_checks import raises

from lathe.configs import load_config
from lathe.rtl.derived_widths import RtlError
from lathe.rtl.engines import build
from lathe.rtl.engines.verilator import _loaded

ROOT = Path(__file__).parents[2]

# A process that requests a library; its build writes to a log and takes some seconds.
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
    """Wait until a build has started."""
    while not log.exists():
        time.sleep(0.01)


@pytest.mark.slow
def test_concurrent_processes_build_a_library_once(cache, tmp_path):
    log = tmp_path / "log"
    outputs = [each.communicate()[0].split() for each in [process(log, 0.5) for _ in range(3)]]
    assert log.read_text() == "began\n"
    assert outputs == [outputs[0]] * 3
    assert outputs[0][1] == "whole"
    assert [path.name for path in cache.glob("*.so")] == [outputs[0][0]]
    assert list(cache.glob("build-*")) == []


@pytest.mark.slow
def test_a_build_that_was_killed_is_repeated(cache, tmp_path):
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


@pytest.mark.nightly
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
    """A copy of the packages with the sources of the hardware, which builds use instead of the original."""
    root = tmp_path / "lathe"
    for package in ("configs", "isa", "rtl"):
        shutil.copytree(ROOT / package, root / package, ignore=shutil.ignore_patterns("__pycache__"))
    monkeypatch.setattr(build, "__file__", str(root / "rtl" / "engines" / "build.py"))
    monkeypatch.setattr(build, "HERE", root / "rtl" / "engines")
    monkeypatch.setattr(build, "_sources", build._sources.__wrapped__)
    return root


def built(folder_of_cache, monkeypatch, content):
    """The content of the file that `library` returns, if a build would produce `content`."""

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


def test_a_build_with_a_source_that_was_removed_is_not_used(cache, sources, monkeypatch):
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


def test_changes_of_the_memory_on_the_bus_need_no_build_and_those_of_the_hardware_do(cache, monkeypatch):
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


def refused_cache(path, reason, monkeypatch):
    """Check that a cache that cannot be written to is refused."""
    monkeypatch.setenv("LATHE_CACHE", str(path))
    mentions = ("Verilated machines", repr(str(path)), reason, "LATHE_CACHE")
    raises(RtlError, build.library, load_config("tiny"), mentions=mentions)


def test_a_cache_that_is_a_file_or_below_one_is_refused(tmp_path, monkeypatch):
    (tmp_path / "file").write_text("")
    for name, reason in (("file", "File exists"), ("file/below", "Not a directory")):
        refused_cache(tmp_path / name, reason, monkeypatch)


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
    refused_cache(cache, "Permission denied", monkeypatch)
    assert list(cache.glob("*.so")) == []


def test_without_a_home_directory_the_cache_must_be_named(monkeypatch):
    monkeypatch.delenv("LATHE_CACHE", raising=False)
    monkeypatch.delenv("XDG_CACHE_HOME", raising=False)
    monkeypatch.setattr(Path, "home", lambda: (_ for _ in ()).throw(RuntimeError("no home")))
    raises(RtlError, build.cache_folder, build.PURPOSE, mentions=("Verilated machines", "no home", "LATHE_CACHE"))


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
    raises(RtlError, _loaded, path, mentions=("compiled simulator", repr(str(path)), "Delete"))


def test_the_runtime_of_verilator_is_compiled_once_for_all_machines(cache, tmp_path, monkeypatch):
    """It is compiled again for other sources, and if the object is damaged."""
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
