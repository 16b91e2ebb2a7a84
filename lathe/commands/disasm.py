"""`lathe disasm`: print a program, a stream, or the streams of a network as assembly text."""

from pathlib import Path

import click
import numpy as np
from numpy.typing import NDArray

from lathe.archives import load_archive
from lathe.commands.models import load_network
from lathe.commands.options import FILE, stream_config_option
from lathe.configs import HardwareConfig
from lathe.configs.atomic import write_text
from lathe.configs.memory import PAGE_BYTES
from lathe.isa import MemoryType, Opcode, PagedMemory, Program, ProgramError, disassemble, disassemble_program
from lathe.isa.encoding import extract_columns
from lathe.networks.files import holds_network
from lathe.networks.program import NetworkProgram
from lathe.networks.program_steps import HostStep
from lathe.sim import RawStream


@click.command()
@click.argument("file", type=FILE)
@stream_config_option
@click.option("--stream", type=int, metavar="N", help="Print only this stream of a network (the first is 1).")
@click.option("-o", "--output", type=FILE, help="Write the text to this file instead of standard output.")
def disasm(file: Path, config_name: str | None, stream: int | None, output: Path | None) -> None:
    """Print a program or stream, or the streams of a network, as assembly text.

    `lathe asm` assembles the text of one program or stream to the same bytes.

    FILE is the output of `lathe compile`, or a stream for `lathe replay`. For a stream, the micro-ops that its
    instructions load are printed, too, named by their address in memory. For a network, comments between the streams
    list the nodes that run on the host CPU.
    """
    if holds_network(file):
        text = network_text(load_network(file, config_name), stream)
    elif stream is not None:
        raise ProgramError(f"--stream must be left out for {str(file)!r}, which is not a network, not {stream}.")
    else:
        loaded, machine = load_archive(file, config_name)
        text = disassemble_program(loaded) if isinstance(loaded, Program) else stream_text(machine, loaded)
    if output is None:
        click.echo(text, nl=not text.endswith("\n"))
    else:
        write_text(output, text)


def network_text(program: NetworkProgram, number: int | None) -> str:
    """The text of one stream of a network, or of all in order, with the nodes of the host CPU as comments between."""
    if number is not None:
        if not 1 <= number <= len(program.parts):
            raise ProgramError(
                f"--stream must be from 1 to {len(program.parts)}, the number of streams of network {program.name!r}, "
                f"not {number}."
            )
        return disassemble_program(program.parts[number - 1])
    lines = [f"; network {program.name!r} for machine {program.config.name!r}"]
    types = {name: f"{each.dtype} {list(each.shape)}" if each else "no tensor" for name, each in program.inputs.items()}
    lines += [f"; input {name}: {what}" for name, what in types.items()]
    streams = 0
    for step in program.steps:
        if isinstance(step, HostStep):
            lines += ["", *(f"; on the host: {each.name}; {each.why}" for each in step.nodes)]
            continue
        streams += 1
        layers = ", ".join(each.name for each in step.layers)
        lines += ["", f"; stream {streams}: {layers}", disassemble_program(step.program).rstrip()]
    return "\n".join(lines) + "\n"


def stream_text(machine: HardwareConfig, stream: RawStream) -> str:
    """The assembly text of a stream, with its micro-ops."""
    return disassemble(machine, stream.insns, uop_tables(machine, stream))


def uop_tables(machine: HardwareConfig, stream: RawStream) -> dict[str, NDArray[np.uint32]]:
    """The micro-op words that the stream loads from its pages, by the hexadecimal address of the first word."""
    memory = PagedMemory.of(stream.page_addrs, stream.pages)
    tables: dict[str, NDArray[np.uint32]] = {}
    for begin, end in merged(uop_ranges(machine, stream)):
        for address, stop in within_pages(begin, end, memory):
            tables[f"{address:#x}"] = memory.read(address, stop - address).view("<u4").astype(np.uint32)
    return tables


def uop_ranges(machine: HardwareConfig, stream: RawStream) -> list[tuple[int, int]]:
    """The byte ranges that LOADs of micro-ops read: one per row if rows are not contiguous, otherwise one per LOAD."""
    columns = extract_columns(machine, stream.insns)
    loads = (columns.opcode == Opcode.LOAD) & (columns["memory_type"] == MemoryType.UOP)
    names = ("dram_base", "y_size", "x_size", "x_stride")
    ranges = []
    for base, rows, width, stride in zip(*(columns[name][loads].tolist() for name in names), strict=True):
        if stride == width:
            rows, width = 1, rows * width
        for row in range(rows if width else 0):
            begin = (base + row * stride) * machine.uop_element_bytes
            ranges.append((begin, begin + width * machine.uop_element_bytes))
    return ranges


def merged(ranges: list[tuple[int, int]]) -> list[tuple[int, int]]:
    """The union of ranges as disjoint, non-adjacent ranges in ascending order."""
    union: list[tuple[int, int]] = []
    for begin, end in sorted(ranges):
        if union and begin <= union[-1][1]:
            union[-1] = (union[-1][0], max(union[-1][1], end))
        else:
            union.append((begin, end))
    return union


def within_pages(begin: int, end: int, memory: PagedMemory) -> list[tuple[int, int]]:
    """The subranges for which the memory has pages; all other bytes are zero."""
    pages = sorted(address for address in memory.pages if begin - PAGE_BYTES < address < end)
    return merged([(max(begin, address), min(end, address + PAGE_BYTES)) for address in pages])
