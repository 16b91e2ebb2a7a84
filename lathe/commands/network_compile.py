"""`lathe compile MODEL.onnx`: compile a network to a file, and list its layers and streams."""

from collections import Counter
from pathlib import Path
from typing import Any

from lathe.commands.models import note_float, shapes_of
from lathe.commands.terminal import console, grouped, print_json, table
from lathe.configs import HardwareConfig
from lathe.isa import Program
from lathe.isa.dram_rows import Ranges
from lathe.isa.program import ROLES
from lathe.networks.network import from_onnx
from lathe.networks.program import NetworkProgram
from lathe.networks.program_steps import HostStep


def compile_model(path: Path, shapes: tuple[str, ...], machine: HardwareConfig, output: Path, as_json: bool) -> None:
    """Compile a model, save it, and print its layers and streams."""
    network = from_onnx(path, shapes_of(shapes))
    program = network.build(machine)
    program.save(output)
    note_float(path, network.model)
    if as_json:
        streams = [{"instructions": _instructions(each), "bytes": _bytes(each)} for each in program.parts]
        print_json({"model": str(path), "machine": machine.name, "layers": _layers(program), "streams": streams})
        return
    out = console()
    rows = [
        [
            each["name"],
            f"stream {each['stream']}" if each["stream"] else "host",
            *(grouped(each[name]) if each[name] else "" for name in ("bound", "macs")),
            each["why"],
        ]
        for each in _layers(program)
    ]
    columns = ["layer", "where", "bound", "macs", "why on the host"]
    out.print(table(f"{output} for {machine.name}", columns, rows, left=2))
    out.print()
    streams_of = [
        [str(number), *(grouped(_bytes(part)[role]) for role in ROLES), _instruction_counts(part)]
        for number, part in enumerate(program.parts, 1)
    ]
    out.print(table("Streams, and the bytes of their segments", ["stream", *ROLES, ""], streams_of))


def _bytes(program: Program) -> dict[str, int]:
    """Bytes of the segments of each role; memory that several temporaries share counts once."""
    found = {}
    for role in ROLES:
        covered = Ranges.of_pairs([(each.address, each.end) for each in program.segments if each.role == role])
        found[role] = int((covered.end - covered.start).sum())
    return found


def _layers(program: NetworkProgram) -> list[dict[str, Any]]:
    """NPU layers and host nodes in order; ``stream`` is 1 for the first stream, 0 for the host CPU."""
    found: list[dict[str, Any]] = []
    stream = 0
    for step in program.steps:
        if isinstance(step, HostStep):
            found += [
                {"name": each.name, "where": "host", "stream": 0, "bound": 0, "macs": each.macs, "why": each.why}
                for each in step.nodes
            ]
            continue
        stream += 1
        found += [
            {"name": each.name, "where": "npu", "stream": stream, "bound": each.bound, "macs": each.macs, "why": ""}
            for each in step.layers
        ]
    return found


def _instructions(program: Program) -> dict[str, int]:
    return dict(Counter(instruction.opcode.name.lower() for instruction in program.instructions))


def _instruction_counts(program: Program) -> str:
    return ", ".join(f"{grouped(count)} {name}" for name, count in sorted(_instructions(program).items()))
