"""Fault codes in hardware: signals that hold one, and the selection of the first of several."""

from amaranth import Module, Signal

from lathe.isa.fault import FAULT_DESCRIPTIONS, FaultCode

__all__ = ["FAULT_BITS", "FAULT_DESCRIPTIONS", "FaultCode", "fault_signal", "first_fault"]

FAULT_BITS = 8


def fault_signal() -> Signal:
    """A signal that holds a fault code."""
    return Signal(FAULT_BITS)


def first_fault(m: Module, target: Signal, faults: list[Signal]) -> None:
    """Drive `target` with the first of `faults` that is not NONE."""
    for fault in reversed(faults):
        with m.If(fault != FaultCode.NONE):
            m.d.comb += target.eq(fault)
