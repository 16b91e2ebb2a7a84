"""The unit of each metric of a sweep, and whether it is to be maximised."""

from lathe.sweeps.measurement import UNITS, WAITS

_WHOLE = {
    "cycles": "cycles",
    "bound_cycles": "cycles",
    "memory.latency": "cycles",
    "memory.bus_bits": "bits",
    "memory.cycles_per_beat": "cycles",
    "instructions": "instructions",
    "gemm_operations": "operations",
    "alu_operations": "operations",
    "macs": "MACs",
    "host_nodes": "nodes",
    **dict.fromkeys((f"{unit}_busy" for unit in UNITS), "cycles"),
    **dict.fromkeys(WAITS, "cycles"),
}
_ENDS = {
    "_us": "µs",
    "_ns": "ns",
    "_mhz": "MHz",
    "_pj": "pJ",
    "_nj": "nJ",
    "_mw": "mW",
    "_um2": "µm²",
    "_mm2": "mm²",
    "_bytes": "bytes",
    "_bits": "bits",
    "_seconds": "s",
    "_latency": "cycles",
    "_cells": "cells",
    "_flip_flops": "flip-flops",
    "_multipliers": "multipliers",
    "_luts": "LUTs",
    "_block_rams": "block RAMs",
}


def unit_of(name: str) -> str:
    """The unit of a column; "" for dimensionless ones."""
    if name in _WHOLE:
        return _WHOLE[name]
    if name.startswith(("bytes_", "read_")):
        return "bytes"
    return next((unit for end, unit in _ENDS.items() if name.endswith(end)), "")


def is_better_great(name: str) -> bool:
    """Whether a metric is to be maximised; most are to be minimised."""
    return name in ("efficiency", "utilisation") or name.endswith("_mhz")
