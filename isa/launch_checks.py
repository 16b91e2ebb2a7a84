"""What must hold of a launch as a whole, and what a machine says where it does not."""

from dataclasses import dataclass

from lathe.configs import HardwareConfig
from lathe.configs.encoding import INSTRUCTION_BYTES
from lathe.isa.fault import FaultCode
from lathe.isa.table import MOST_TOKENS, TokenQueue


@dataclass(frozen=True)
class LaunchRule:
    """What must hold of a launch as a whole, and the machine's fault where it does not."""

    code: FaultCode
    what: str


LAUNCH_RULES: tuple[LaunchRule, ...] = (
    LaunchRule(FaultCode.TOKEN_OVERFLOW, f"a queue holds at most {MOST_TOKENS:,} tokens"),
    LaunchRule(FaultCode.DEADLOCK, "every pop finds a token, and every instruction room in its queue"),
    LaunchRule(FaultCode.STREAM_WRITE, "no STORE changes a byte of the stream itself"),
    LaunchRule(FaultCode.NO_FINISH, "the stream has a FINISH"),
)

NO_FINISH_MESSAGE = "The stream must have a FINISH, and has none: the launch never ends. Add a FINISH."


def unreachable_message(config: HardwareConfig, insn_addr: int, count: int) -> str | None:
    """What is wrong with a stream of ``count`` instructions from a byte address on, if fetch cannot reach all of it."""
    end = 1 << config.address_bits
    if insn_addr + count * INSTRUCTION_BYTES <= end:
        return None
    return (
        f"The instructions of the stream must end below byte {end:#x}, where the addresses of machine {config.name!r} "
        f"end, not be {count} from byte {insn_addr:#x} on. Correct insn_addr."
    )


def stream_write_message(where: str, address: int) -> str:
    """What a machine says of a STORE to the stream itself: ``where`` names it, ``address`` is its first byte there."""
    return (
        f"The DRAM range of {where} must keep out of the stream that is running, not touch byte {address:#x} of it. "
        "Fetch reads ahead; move the stream or what is stored."
    )


def overflow_message(queue: TokenQueue, where: str) -> str:
    """What a machine says of a token too many; ``where`` names the instruction that pushes it."""
    return (
        f"The tokens of {queue.arrow} must be at most {MOST_TOKENS}, not more, as with that of {where}. "
        "Let the receiving unit pop them earlier."
    )
