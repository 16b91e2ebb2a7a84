"""The register map: names, addresses and meanings, from which hardware and documentation are generated."""

from dataclasses import dataclass

from lathe.isa.table import TokenQueue
from lathe.rtl.stall import CAUSE_NAMES, CAUSES_OF, UNIT_NAMES

ADDRESS_BITS = 10
COUNTER_BITS = 48
# Identifies the device to software: "LATH" in ASCII.
IDENTITY = 0x4C415448


@dataclass(frozen=True)
class Register:
    """A 32-bit register at a byte `address`. `access`: "rw" or "ro"."""

    name: str
    address: int
    access: str
    what: str


def _registers() -> tuple[Register, ...]:
    found = [
        Register("CONTROL", 0x00, "rw", "writing bit 0 as 1 starts a launch when none is running; reads as 0"),
        Register("STATUS", 0x04, "ro", "bit 0 running, bit 1 done, bit 2 fault; bits 8 to 15 the fault code"),
        Register("IDENTITY", 0x08, "ro", f"{IDENTITY:#010x}, the letters LATH"),
        Register("STREAM_LOW", 0x10, "rw", "byte address of the instruction stream, low word; a multiple of 16"),
        Register("STREAM_HIGH", 0x14, "rw", "byte address of the instruction stream, high word"),
        Register("COUNT", 0x18, "rw", "number of instructions of the stream"),
    ]
    for queue in TokenQueue:
        found.append(
            Register(
                f"TOKENS_IN_{int(queue)}", 0x20 + 4 * queue, "rw", f"tokens of {queue.arrow} at the start of the launch"
            )
        )
    for queue in TokenQueue:
        found.append(
            Register(
                f"TOKENS_OUT_{int(queue)}", 0x30 + 4 * queue, "ro", f"tokens of {queue.arrow} now, or after the launch"
            )
        )
    for number, (name, what) in enumerate(counters()):
        for half, offset in (("LOW", 0), ("HIGH", 4)):
            found.append(Register(f"{name}_{half}", 0x80 + 8 * number + offset, "ro", f"{what}, {half.lower()} word"))
    return tuple(found)


def counters() -> list[tuple[str, str]]:
    """Names and meanings of the counters, in order: the launch's cycles, then each unit's busy cycles and stalls."""
    found = [("CYCLES", "cycles of the launch so far, or all its cycles after its end")]
    for unit, causes in zip(UNIT_NAMES, CAUSES_OF, strict=True):
        found.append((f"{unit.upper()}_BUSY", f"busy cycles of {unit}"))
        found += [
            (f"{unit.upper()}_{cause.name}", f"cycles of {unit} stalled by {CAUSE_NAMES[cause]!r}") for cause in causes
        ]
    return found


REGISTERS = _registers()
BY_NAME = {register.name: register for register in REGISTERS}
