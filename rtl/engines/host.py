"""The registers that the host CPU writes before a launch and reads after it; the same for every engine."""

from collections.abc import Mapping
from typing import Any

from lathe.isa.table import TokenQueue
from lathe.rtl.engines.launch import Launch
from lathe.rtl.fault import FaultCode
from lathe.rtl.registers import counters
from lathe.rtl.stall import CAUSE_NAMES, CAUSES_OF, UNIT_NAMES


def settings(launch: Launch) -> list[tuple[str, int]]:
    """Names and values of the registers that start a launch, in order; the last one starts it."""
    return [
        ("STREAM_LOW", launch.insn_addr & 0xFFFFFFFF),
        ("STREAM_HIGH", launch.insn_addr >> 32),
        ("COUNT", launch.count),
        *((f"TOKENS_IN_{int(queue)}", launch.tokens[queue]) for queue in TokenQueue),
        ("CONTROL", 1),
    ]


# The registers with the results of a launch.
REPORT = (
    "STATUS",
    *(f"TOKENS_OUT_{int(queue)}" for queue in TokenQueue),
    *(f"{name}_{half}" for name, _ in counters() for half in ("LOW", "HIGH")),
)


def report(values: Mapping[str, int]) -> dict[str, Any]:
    """Cycles, fault, tokens and units of an Outcome, from the values of the registers in REPORT."""

    def counter(name: str) -> int:
        return values[f"{name}_LOW"] | values[f"{name}_HIGH"] << 32

    tokens = [values[f"TOKENS_OUT_{int(queue)}"] for queue in TokenQueue]
    return {
        "cycles": counter("CYCLES"),
        "fault": FaultCode(values["STATUS"] >> 8 & 255),
        "tokens": (tokens[0], tokens[1], tokens[2], tokens[3]),
        "units": {
            unit: {"busy": counter(f"{unit.upper()}_BUSY")}
            | {CAUSE_NAMES[cause]: counter(f"{unit.upper()}_{cause.name}") for cause in causes}
            for unit, causes in zip(UNIT_NAMES, CAUSES_OF, strict=True)
        },
    }
