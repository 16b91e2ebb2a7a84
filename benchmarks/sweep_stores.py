"""Synthetic stores of sweeps of any size, as written by a sweep of one network on a grid of machines.

The metrics are random with a seed: reading such a store takes as long as reading measured rows.
"""

from itertools import islice, product
from pathlib import Path

import numpy as np

from lathe.sweeps.measurement import METRICS
from lathe.sweeps.store import StoredRow, writing_store

LAYERS = 21
"""The number of ResNet-18's layers on the NPU."""
MACHINES = {
    "memory.latency": range(0, 200, 10),
    "memory.bus_bits": (32, 64, 128, 256),
    "batch": (1, 2, 4),
    "inp_buffer_bytes": tuple(1 << power for power in range(13, 20)),
    "wgt_buffer_bytes": tuple(1 << power for power in range(15, 22)),
}


def rows_of(points: int, seed: int = 0) -> list[StoredRow]:
    """Rows of a grid, one in fifty of them without metrics. Cycles of layers add up to those of their point."""
    random = np.random.default_rng(seed)
    names = [f"layer{number}.conv" for number in range(LAYERS)]
    found = []
    for number, values in enumerate(islice(product(*MACHINES.values()), points)):
        changes = dict(zip(MACHINES, values, strict=True))
        point = {"workload": "onnx", "path": "resnet18.onnx", "base": "lathe16", **changes}
        if number % 50 == 49:
            columns = {**point, "status": "unmappable", "reason": "The weights of one output do not fit wgt."}
            found.append(StoredRow(f"{number:08}", number, "sources", "unmappable", 0.1, columns))
            continue
        shares = random.integers(1000, 100_000, LAYERS)
        cycles = int(shares.sum()) + changes["memory.latency"] * 500 // changes["batch"]
        shares[0] += cycles - shares.sum()
        numbers = {name: int(random.integers(0, 10_000_000)) for name in METRICS}
        numbers |= {
            "cycles": cycles,
            "utilisation": round(float(random.uniform(0.1, 0.9)), 6),
            "efficiency": round(float(random.uniform(0.1, 0.9)), 6),
            "energy_pj": round(1e9 / cycles * float(random.uniform(1, 2)) + changes["inp_buffer_bytes"], 3),
            "time_us": cycles / 200,
        }
        layers = {
            "layer": names,
            "cycles": shares.tolist(),
            "bytes": random.integers(0, 1 << 20, LAYERS).tolist(),
            "bound": (shares // 2).tolist(),
            "macs": random.integers(0, 1 << 26, LAYERS).tolist(),
        }
        columns = {**point, "status": "ok", **numbers, "reason": ""}
        found.append(StoredRow(f"{number:08}", number, "sources", "ok", 0.5, columns, layers))
    return found


def write_store(path: Path, points: int, seed: int = 0) -> None:
    """Write a store with the rows of :func:`rows_of`."""
    with writing_store(path) as store:
        store.connection.execute("begin")
        for row in rows_of(points, seed):
            store.write(row)
        store.connection.execute("commit")
