"""`lathe asm`: assemble text to an instruction stream, or into a program."""

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
    """Assembled instructions or micro-ops that cannot be put into memory."""


@click.command()
@click.argument("text", type=FILE)
@stream_config_option
@click.option("-o", "--output", type=FILE, required=True, help="The .npz file to write.")
@click.option("--into", type=FILE, help="Replace the instructions and micro-ops of this program or stream.")
@click.option(
    "--address", type=int, help="Byte address of the instructions of a stream.  [default: 0, or as in --into]"
)
def asm(text: Path, config_name: str | None, output: Path, into: Path | None, address: int | None) -> None:
    """Assemble text to an instruction stream, or into a program.

    The text has the format that `lathe disasm` prints. The name of a micro-op table is that of its memory segment, or
    in a stream its byte address. Without --into, the stream's memory holds only the instructions and the micro-ops,
    and the token queues are empty. With --into, all other arrays of the stream's file are copied, such as the memory
    that `lathe replay --check` compares with.
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
            "finish; `lathe disasm` prints examples."
        )
    if isinstance(base, Program):
        if address is not None:
            raise PlacementError(
                f"--address must be left out for the program {str(into)!r}, which has a fixed instruction address."
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
    """A stream without instructions, memory pages and tokens."""
    empty = np.zeros((0, INSTRUCTION_BYTES), np.uint8)
    return RawStream(empty, 0, np.zeros(0, np.uint64), np.zeros((0, PAGE_BYTES), np.uint8), (0, 0, 0, 0))


def edited_program(program: Program, assembly: Assembly) -> Program:
    """The program with its instructions and micro-ops replaced, in the same segments."""
    images = dict(program.images)
    for name, words in assembly.uops.items():
        segment = program.segment(name)
        content = words.astype("<u4").view(np.uint8)
        if segment.role != UOPS or len(content) > segment.nbytes:
            raise PlacementError(
                f"Cannot store the {len(content)} bytes of micro-op table {name!r}: segment {name!r} has "
                f"{segment.nbytes} bytes and the role {segment.role!r}. Name a large enough segment of role {UOPS!r}, "
                "or leave out micro-ops."
            )
        image = images[name].copy()
        image[: len(content)] = content
        images[name] = image
    count = len(assembly.encoded)
    size = next(segment.nbytes for segment in program.segments if segment.role == "instructions")
    if count > (capacity := size // INSTRUCTION_BYTES):
        raise PlacementError(
            f"The program's instructions must be at most {capacity}, the capacity of its segment, not {count}. "
            "Remove instructions, or leave out --into to write a stream."
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
    """The stream with its instructions and micro-ops replaced, on the same memory."""
    memory = PagedMemory.of(stream.page_addrs, stream.pages)
    insn_addr = stream.insn_addr if address is None else address
    code = assembly.encoded.reshape(-1)
    if insn_addr < 0 or insn_addr % INSTRUCTION_BYTES:
        raise PlacementError(
            f"The address of the instructions must be a multiple of {INSTRUCTION_BYTES}, not {insn_addr}."
        )
    check_addressable(machine, "the instructions", insn_addr, len(code))
    taken = [("the instructions", insn_addr, insn_addr + len(code))]
    memory.write(insn_addr, code)
    for name, words in assembly.uops.items():
        content = words.astype("<u4").view(np.uint8)
        begin = table_address(machine, name)
        check_addressable(machine, f"the micro-ops {name!r}", begin, len(content))
        for other, start, end in taken:
            if begin < end and start < begin + len(content):
                raise PlacementError(
                    f"The micro-op table {name!r} must not overlap {other}, which take the bytes from {start:#x} to "
                    f"{end:#x}. Name another address, or move the instructions with --address."
                )
        taken.append((f"the micro-ops {name!r}", begin, begin + len(content)))
        memory.write(begin, content)
    addresses = sorted(memory.pages)
    pages = np.array([memory.pages[each] for each in addresses], np.uint8).reshape(-1, PAGE_BYTES)
    return RawStream(assembly.encoded, insn_addr, np.array(addresses, np.uint64), pages, stream.tokens)


def check_addressable(machine: HardwareConfig, what: str, begin: int, count: int) -> None:
    """Raise :class:`PlacementError` if bytes are outside the machine's address space."""
    end = 1 << machine.address_bits
    if begin + count > end:
        raise PlacementError(
            f"Cannot store {what} ({count} bytes) at {begin:#x}: the addresses of machine {machine.name!r} end at "
            f"{end:#x}. Choose a lower address."
        )


def table_address(machine: HardwareConfig, name: str) -> int:
    """The byte address that is the name of a stream's micro-op table."""
    try:
        address = int(name, 0)
    except ValueError:
        address = -1
    if address < 0 or address % machine.uop_element_bytes:
        raise PlacementError(
            f"The name of a micro-op table of a stream must be its byte address, a multiple of "
            f"{machine.uop_element_bytes} such as 0x1000, not {name!r}. Segment names require --into with a program."
        )
    return address


def save_stream(stream: RawStream, path: Path, further: Mapping[str, Any]) -> None:
    """Write a stream in the format that `lathe replay` reads, with further arrays."""
    own: dict[str, Any] = {
        "insns": stream.insns,
        "insn_addr": np.uint64(stream.insn_addr),
        "page_addrs": stream.page_addrs,
        "pages": stream.pages,
        "tokens": np.array(stream.tokens, np.int64),
    }
    write_arrays(path, {**own, **further})
