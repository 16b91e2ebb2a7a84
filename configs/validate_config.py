"""Validation of machine parameters against the contracts of the hardware, the instruction encoding and the bus."""

import dataclasses
import difflib
from collections.abc import Iterator, Sequence
from typing import Any

from lathe.configs.encoding import LOOKUP, RESCALE, RESCALE_ADD, TABLE_ELEMENTS
from lathe.configs.encoding_fit import misfit
from lathe.configs.errors import KeyViolation, shown
from lathe.configs.extensions import EXTENSIONS
from lathe.configs.memory import MemoryConfig, TimingConfig
from lathe.configs.parameters import MachineParameters

# The only supported widths of scalar elements, by parameter.
ELEMENT_BITS = {"inp_bits": 8, "wgt_bits": 8, "acc_bits": 32, "out_bits": 8}

SECTIONS: dict[str, type[MemoryConfig] | type[TimingConfig]] = {"memory": MemoryConfig, "timing": TimingConfig}

_SHAPE = ("batch", "block_in", "block_out")
_BUFFERS = ("uop_buffer_bytes", "inp_buffer_bytes", "wgt_buffer_bytes", "acc_buffer_bytes")
# Sizes of memories that exist exactly on machines with an extension.
_EXTENSION_OF = {"par_buffer_bytes": RESCALE, "lut_buffer_bytes": LOOKUP}
TOP_LEVEL_KEYS = ("name", *_SHAPE, *_BUFFERS, *_EXTENSION_OF, *ELEMENT_BITS, *SECTIONS, "extensions")
REQUIRED_KEYS = (*_SHAPE, *_BUFFERS)

# Far above any hardware, and small enough that the cycle count of any run is exact in 64 bits.
MOST = 1_000_000

# Smallest and largest values. AXI4 limits the beats of a burst and the widths of the bus.
_BOUNDS: dict[str, tuple[int, int]] = {
    "memory.latency": (0, MOST),
    "memory.burst_beats": (1, 256),
    "memory.outstanding_reads": (1, MOST),
    "memory.cycles_per_beat": (1, MOST),
    "timing.command_queue_depth": (1, MOST),
    "timing.gemm_pipeline": (1, MOST),
    "timing.alu_pipeline": (1, MOST),
    "timing.dma_fifo_beats": (1, MOST),
    "timing.fetch_fifo_beats": (1, MOST),
    "timing.write_latency": (0, MOST),
    "timing.response_latency": (0, MOST),
    "timing.dma_pending": (1, MOST),
}
_BUS_BITS = (8, 16, 32, 64, 128, 256, 512, 1024)


def section_keys(section: str) -> tuple[str, ...]:
    """The parameters of section ``memory`` or ``timing``, without the section's name."""
    return tuple(field.name for field in dataclasses.fields(SECTIONS[section]))


def all_keys() -> tuple[str, ...]:
    """Every dotted key that a configuration may have."""
    inner = tuple(f"{section}.{key}" for section in SECTIONS for key in section_keys(section))
    return (*TOP_LEVEL_KEYS, *inner)


def nearest(word: str, known: Sequence[str]) -> str:
    """The sentence "Did you mean X?" with the closest match among ``known``, or "" without a close match."""
    alike = difflib.get_close_matches(word.lower(), known, n=1, cutoff=0.5)
    return f"Did you mean {alike[0]!r}?" if alike else ""


def unknown(
    word: str, known: Sequence[str], thing: str = "A key", *, key: str = "", alike: Sequence[str] = ()
) -> KeyViolation:
    """The fault of a word that is not one of ``known``; the suggestion is the closest match in ``alike or known``."""
    guess = nearest(word, alike or known)
    return KeyViolation(key or word, thing, f"one of {', '.join(known)}, not {word!r}", guess or "Remove it.")


def unknown_key(key: str) -> KeyViolation | None:
    """The fault of a dotted key that no machine has, or None for a known key."""
    known = all_keys()
    if key in known:
        return None
    section, dot, parameter = key.partition(".")
    if dot and section in SECTIONS:
        return unknown(parameter, section_keys(section), f"A key of {section}", key=key)
    return unknown(key, TOP_LEVEL_KEYS, alike=known)


def fault_in(machine: MachineParameters) -> KeyViolation | None:
    """The first fault of a machine's parameters, or None when they are valid."""
    return next(_faults(machine), None)


def _is_int(value: Any) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


def _is_power_of_two(value: Any) -> bool:
    return _is_int(value) and value > 0 and value & (value - 1) == 0


def _faults(machine: MachineParameters) -> Iterator[KeyViolation]:
    if not isinstance(machine.name, str) or not machine.name:
        yield KeyViolation("name", "name", f"a non-empty string, not {machine.name!r}", "Name the machine.")
    yield from _faults_of_core(machine)
    yield from _faults_of_section(machine)
    yield from _faults_of_extensions(machine)
    yield from _faults_of_depths(machine)
    yield from _faults_of_encoding(machine)


def _faults_of_core(machine: MachineParameters) -> Iterator[KeyViolation]:
    for key in (*_SHAPE, *_BUFFERS):
        value = getattr(machine, key)
        if not _is_power_of_two(value):
            remedy = "Write an integer such as 1, 2, 4, 8 or 16."
            if key in _BUFFERS:
                remedy = "Write a number of bytes such as 32768."
            yield KeyViolation(key, key, f"a power of two, not {shown(value)}", remedy)
    for key in _EXTENSION_OF:
        value = getattr(machine, key)
        if not ((_is_int(value) and value == 0) or _is_power_of_two(value)):
            remedy = "Write a number of bytes such as 32768."
            yield KeyViolation(key, key, f"a power of two, or 0 for none, not {shown(value)}", remedy)
    for key, allowed in ELEMENT_BITS.items():
        value = getattr(machine, key)
        if not _is_int(value) or value != allowed:
            yield KeyViolation(
                key, key, f"{allowed}, not {shown(value)}", "Other element widths are not supported yet."
            )


def _faults_of_section(machine: MachineParameters) -> Iterator[KeyViolation]:
    for section, kind in SECTIONS.items():
        value = getattr(machine, section)
        if not isinstance(value, kind):
            yield KeyViolation(
                section, section, f"a {kind.__name__}, not {shown(value)}", "Give its parameters by name."
            )
            return
    memory, timing = machine.memory, machine.timing
    if not _is_int(memory.bus_bits) or memory.bus_bits not in _BUS_BITS:
        allowed = ", ".join(map(str, _BUS_BITS))
        yield KeyViolation(
            "memory.bus_bits",
            "memory.bus_bits",
            f"one of {allowed}, not {shown(memory.bus_bits)}",
            "AXI4 has no other widths.",
        )
    if not isinstance(memory.shared_bandwidth, bool):
        yield KeyViolation(
            "memory.shared_bandwidth",
            "memory.shared_bandwidth",
            f"true or false, not {memory.shared_bandwidth!r}",
            "True lets reads and writes share the DRAM's beats.",
        )
    for key, (least, most) in _BOUNDS.items():
        section, _, parameter = key.partition(".")
        value = getattr(getattr(machine, section), parameter)
        if not _is_int(value) or not least <= value <= most:
            yield KeyViolation(
                key, key, f"an integer from {least} to {most}, not {shown(value)}", "Correct the number."
            )
    for parameter in ("dma_fifo_beats", "fetch_fifo_beats"):
        beats = getattr(timing, parameter)
        if beats < memory.burst_beats:
            yield KeyViolation(
                f"timing.{parameter}",
                f"timing.{parameter}",
                f"at least memory.burst_beats ({memory.burst_beats}), not {beats}",
                "The FIFO must hold a whole burst: make it deeper or the bursts shorter.",
            )


def _faults_of_extensions(machine: MachineParameters) -> Iterator[KeyViolation]:
    if not isinstance(machine.extensions, tuple):
        remedy = "Write it in brackets." if isinstance(machine.extensions, str) else "List the names."
        yield KeyViolation("extensions", "extensions", f"a list of names, not {shown(machine.extensions)}", remedy)
        return
    for extension in machine.extensions:
        if not isinstance(extension, str) or extension not in EXTENSIONS:
            allowed = ", ".join(EXTENSIONS)
            guess = nearest(str(extension), tuple(EXTENSIONS)) or "Remove it."
            yield KeyViolation(
                "extensions", "extensions", f"empty, or a list of {allowed}, not {shown(extension)}", guess
            )
        elif machine.extensions.count(extension) > 1:
            yield KeyViolation("extensions", "extensions", f"different names, not {extension!r} twice", "Name it once.")
    for extension in (RESCALE_ADD, LOOKUP):
        if extension in machine.extensions and RESCALE not in machine.extensions:
            contract = f"a list that includes {RESCALE!r} if it includes {extension!r}, not {extension!r} alone"
            yield KeyViolation("extensions", "extensions", contract, f"Add {RESCALE!r}.")
    for key, extension in _EXTENSION_OF.items():
        size = getattr(machine, key)
        if extension in machine.extensions and not size:
            remedy = "Write a number of bytes such as 32768, or leave the extension out."
            yield KeyViolation(key, key, f"more than 0 with the extension {extension!r}, not 0", remedy)
        if extension not in machine.extensions and size:
            remedy = "Leave the key out, or add the extension."
            yield KeyViolation(key, key, f"0 without the extension {extension!r}, not {size}", remedy)


def _faults_of_depths(machine: MachineParameters) -> Iterator[KeyViolation]:
    for memory in ("uop", "inp", "wgt", "acc"):
        key = f"{memory}_buffer_bytes"
        size, vector_bytes = getattr(machine, key), getattr(machine, f"{memory}_element_bytes")
        if size < vector_bytes:
            yield KeyViolation(
                key,
                key,
                f"at least one vector ({vector_bytes} bytes), not {size}",
                "Enlarge the buffer or shrink batch, block_in or block_out.",
            )
    extensions = machine.extensions
    pair = 2 if RESCALE_ADD in extensions else 1
    for key, what, least in (
        ("par_buffer_bytes", "two vectors" if pair == 2 else "one vector", pair * machine.par_element_bytes),
        ("lut_buffer_bytes", "one table", TABLE_ELEMENTS * machine.lut_element_bytes),
    ):
        size = getattr(machine, key)
        if _EXTENSION_OF[key] in extensions and size < least:
            contract = f"at least {what} ({least} bytes), not {size}"
            yield KeyViolation(key, key, contract, "Enlarge the buffer or shrink block_out.")
    if machine.par_depth > machine.wgt_depth:
        most = machine.wgt_depth * machine.par_element_bytes
        contract = f"at most {most} for the {machine.wgt_depth} vectors of wgt, not {machine.par_buffer_bytes}"
        remedy = "Micro-ops index parameters by their field wgt: enlarge wgt_buffer_bytes or shrink the buffer."
        yield KeyViolation("par_buffer_bytes", "par_buffer_bytes", contract, remedy)


def _faults_of_encoding(machine: MachineParameters) -> Iterator[KeyViolation]:
    overflow = misfit(machine)
    if overflow is None:
        return
    memories = ["uop", "inp", "wgt", "acc"]
    memories += [memory for memory in ("par", "lut") if getattr(machine, f"{memory}_depth")]
    widths = ", ".join(f"{memory} {getattr(machine, f'{memory}_index_bits')}" for memory in memories)
    culprit = overflow.memory if overflow.memory is not None else "acc"
    plural = "bit" if overflow.over == 1 else "bits"
    yield KeyViolation(
        f"{culprit}_buffer_bytes",
        f"field {overflow.field} of the {overflow.format} encoding",
        f"within its {overflow.limit} bits, not {overflow.over} {plural} beyond",
        f"The scratchpads' index widths are {widths} bits: shrink a buffer, or enlarge batch or a block.",
    )
