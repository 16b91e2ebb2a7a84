"""`lathe asm`: assembly text to a stream, or into a program."""

import dataclasses
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click
import numpy as np

from lathe.archives import load_archive
from lathe.commands.options import FILE, stream_config_option
from lathe.configs import HardwareConfig, LatheError, load_config
from lathe.configs.archives import write_arrays
from lathe.configs.encoding import INSTRUCTION_BYTES
from lathe.configs.memory import PAGE_BYTES
from lathe.isa import Assembly, PagedMemory, Program, assemble
from lathe.isa.program import UOPS
from lathe.sim import RawStream
from lathe.sim.stream import KEYS, read_stream_arrays

EDITED_LABEL = "assembly"


class PlacementError(LatheError):
    """Assembled instructions or micro-ops that have no place in memory."""


@click.command()
@click.argument("text", type=FILE)
@stream_config_option
@click.option("-o", "--output", type=FILE, required=True, help="The .npz file to write.")
@click.option("--into", type=FILE, help="Take everything but instructions and micro-ops from this program or stream.")
@click.option(
    "--address", type=int, help="Byte address of the instructions of a stream.  [default: 0, or as in --into]"
)
def asm(text: Path, config_name: str | None, output: Path, into: Path | None, address: int | None) -> None:
    """Assemble text to a stream, or into a program.

    The text is what `lathe disasm` prints. A table of micro-ops belongs to the memory segment, or for streams to the
    byte address, that it is named after. Without --into the stream's memory holds only the instructions and the
    micro-ops, and no tokens are in the queues. With it, what else the stream's file holds is kept, such as the memory
    that `lathe replay --check` expects afterwards.
    """
    if into is None:
        base: Program | RawStream = blank_stream()
        machine = load_config(config_name or "vta")
    else:
        base, machine = load_archive(into, config_name)
    assembly = assemble(machine, read_text(text), source=str(text))
    if not assembly.instructions:
        raise PlacementError(
            f"The assembly text {str(text)!r} must have at least one instruction, and has none. A stream ends with "
            "finish; `lathe disasm` shows how a text looks."
        )
    if isinstance(base, Program):
        if address is not None:
            raise PlacementError(
                f"--address must be left out for the program {str(into)!r}, whose instructions have their place."
            )
        edited_program(base, assembly).save(output)
    else:
        given = {} if into is None else read_stream_arrays(into)
        further = {key: array for key, array in given.items() if key not in KEYS}
        save_stream(edited_stream(machine, base, assembly, address), output, further)


def read_text(path: Path) -> str:
    """The text of a file."""
    try:
        return path.read_text(encoding="utf-8")
    except OSError as error:
        raise PlacementError(
            f"The assembly file {str(path)!r} must be readable, and is not: {error.strerror}. Correct the path."
        ) from None
    except UnicodeDecodeError as error:
        raise PlacementError(
            f"The assembly file {str(path)!r} must be UTF-8 text, not {error.object[error.start]:#04x} at byte "
            f"{error.start}. `lathe disasm` turns programs into text."
        ) from None


def blank_stream() -> RawStream:
    """No instruction, no page, no token."""
    empty = np.zeros((0, INSTRUCTION_BYTES), np.uint8)
    return RawStream(empty, 0, np.zeros(0, np.uint64), np.zeros((0, PAGE_BYTES), np.uint8), (0, 0, 0, 0))


def edited_program(program: Program, assembly: Assembly) -> Program:
    """The program with other instructions and micro-ops in the same segments."""
    images = dict(program.images)
    for name, words in assembly.uops.items():
        segment = program.segment(name)
        content = words.astype("<u4").view(np.uint8)
        if segment.role != UOPS or len(content) > segment.nbytes:
            raise PlacementError(
                f"The micro-op table {name!r} must fit a uop segment of the program, which has {segment.nbytes} bytes "
                f"there with the role {segment.role!r}, not be {len(content)} bytes long. Name the right segment, or "
                "leave out micro-ops."
            )
        image = images[name].copy()
        image[: len(content)] = content
        images[name] = image
    count = len(assembly.encoded)
    room = next(segment.nbytes for segment in program.segments if segment.role == "instructions") // INSTRUCTION_BYTES
    if count > room:
        raise PlacementError(
            f"The instructions for the program must be at most {room}, for which its segment has room, not {count}. "
            "Leave out instructions, or write a stream without --into."
        )
    same = count == len(program.instructions)
    return dataclasses.replace(
        program,
        instructions=tuple(assembly.instructions),
        images=images,
        labels=program.labels if same else (EDITED_LABEL,),
        label_of=program.label_of if same else np.zeros(count, np.int32),
    )


def edited_stream(machine: HardwareConfig, stream: RawStream, assembly: Assembly, address: int | None) -> RawStream:
    """The stream with other instructions and micro-ops on the same memory."""
    memory = PagedMemory.of(stream.page_addrs, stream.pages)
    insn_addr = stream.insn_addr if address is None else address
    code = assembly.encoded.reshape(-1)
    if insn_addr < 0 or insn_addr % INSTRUCTION_BYTES:
        raise PlacementError(
            f"The address of the instructions must be a multiple of {INSTRUCTION_BYTES}, not {insn_addr}."
        )
    check_reach(machine, "the instructions", insn_addr, len(code))
    taken = [("the instructions", insn_addr, insn_addr + len(code))]
    memory.write(insn_addr, code)
    for name, words in assembly.uops.items():
        content = words.astype("<u4").view(np.uint8)
        begin = table_address(machine, name)
        check_reach(machine, f"the micro-ops {name!r}", begin, len(content))
        for other, start, end in taken:
            if begin < end and start < begin + len(content):
                raise PlacementError(
                    f"The micro-op table {name!r} must lie beside {other} in memory, not over them: they take the "
                    f"bytes from {start:#x} to {end:#x}. Name another address, or move the instructions with --address."
                )
        taken.append((f"the micro-ops {name!r}", begin, begin + len(content)))
        memory.write(begin, content)
    addresses = sorted(memory.pages)
    pages = np.array([memory.pages[each] for each in addresses], np.uint8).reshape(-1, PAGE_BYTES)
    return RawStream(assembly.encoded, insn_addr, np.array(addresses, np.uint64), pages, stream.tokens)


def check_reach(machine: HardwareConfig, what: str, begin: int, count: int) -> None:
    """Raises :class:`PlacementError` for bytes beyond the machine's addresses."""
    end = 1 << machine.address_bits
    if begin + count > end:
        raise PlacementError(
            f"The place of {what} must end below byte {end:#x}, where the addresses of machine {machine.name!r} end, "
            f"not be {count} bytes from {begin:#x} on. Name an earlier address."
        )


def table_address(machine: HardwareConfig, name: str) -> int:
    """The byte address that a table of micro-ops is named after."""
    try:
        address = int(name, 0)
    except ValueError:
        address = -1
    if address < 0 or address % machine.uop_element_bytes:
        raise PlacementError(
            f"The name of a micro-op table of a stream must be its byte address, a multiple of "
            f"{machine.uop_element_bytes} such as 0x1000, not {name!r}. Segments' names need --into with a program."
        )
    return address


def save_stream(stream: RawStream, path: Path, further: Mapping[str, Any]) -> None:
    """Write a stream in the form that `lathe replay` reads, and further arrays beside it."""
    own: dict[str, Any] = {
        "insns": stream.insns,
        "insn_addr": np.uint64(stream.insn_addr),
        "page_addrs": stream.page_addrs,
        "pages": stream.pages,
        "tokens": np.array(stream.tokens, np.int64),
    }
    write_arrays(path, {**own, **further})
