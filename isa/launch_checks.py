"""Conditions on a launch as a whole, and the machine's messages when they are violated."""

from dataclasses import dataclass

from lathe.configs import HardwareConfig
from lathe.configs.encoding import INSTRUCTION_BYTES
from lathe.isa.fault import FaultCode
from lathe.isa.table import MOST_TOKENS, TokenQueue


@dataclass(frozen=True)
class LaunchRule:
    """A condition on a launch as a whole, and the machine's fault when it is violated."""

    code: FaultCode
    what: str


LAUNCH_RULES: tuple[LaunchRule, ...] = (
    LaunchRule(FaultCode.TOKEN_OVERFLOW, f"a queue holds at most {MOST_TOKENS:,} tokens"),
    LaunchRule(FaultCode.DEADLOCK, "every pop finds a token, and every instruction finds space in its command queue"),
    LaunchRule(FaultCode.STREAM_WRITE, "no STORE writes to the running instruction stream"),
    LaunchRule(FaultCode.NO_FINISH, "the stream contains a FINISH"),
)

NO_FINISH_MESSAGE = "The stream must have a FINISH, and has none: the launch never ends. Add a FINISH."


def unreachable_message(config: HardwareConfig, insn_addr: int, count: int) -> str | None:
    """Why fetch cannot reach all ``count`` instructions from a byte address on; None if it can."""
    end = 1 << config.address_bits
    if insn_addr + count * INSTRUCTION_BYTES <= end:
        return None
    return (
        f"A stream of {count} instructions at byte {insn_addr:#x} must end below byte {end:#x}, where the addresses of "
        f"machine {config.name!r} end. Correct insn_addr."
    )


def stream_write_message(where: str, address: int) -> str:
    """The message for a STORE to the stream itself: ``where`` names it, ``address`` is its first byte there."""
    return (
        f"The DRAM range of {where} must not overlap the running instruction stream, but contains byte {address:#x} of "
        "it. Fetch reads ahead: move the stream or the stored data."
    )


def overflow_message(queue: TokenQueue, where: str) -> str:
    """The message for a token queue that overflows; ``where`` names the pushing instruction."""
    return (
        f"Queue {queue.arrow} must hold at most {MOST_TOKENS} tokens, but overflows with the push of {where}. "
        "Let the receiving unit pop earlier."
    )
