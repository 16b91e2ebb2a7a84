"""A sweep of 200 machines over ResNet-18, timing only: CPU-seconds for each point, and what a second core is worth.

Five shapes of the matrix core, five sizes of its scratchpads, two buses and four latencies, on `lathe16`; the model is
that of `benchmarks/networks.py` with symmetric activations, 224² pixels. Schedules are shared between memories. Nothing
is in the cache before. Rates are of 32 of these points, four shapes and sizes behind all memories.

    python benchmarks/sweeps.py [--json]
"""

import os
import resource
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parents[1] / "examples" / "models"))

import onnx
from figures import Figure, at_least, at_most, report
from networks import PIXELS, Pictures
from onnxruntime.quantization import QuantFormat, quantize_static
from resnet import resnet18

import lathe as lt

BLOCKS = [[16, 16], [16, 32], [32, 16], [32, 32], [64, 32]]
SCRATCHPADS = [[size >> shift for size in (32768, 262144, 131072, 32768)] for shift in range(5)]
BUSES, LATENCIES = [64, 128], [0, 32, 64, 128]
HOUR = 3600.0
"""A time-out, for which even one process is one of its own, as two are."""


def sweep_of(model: Path, blocks: list[list[int]], scratchpads: list[list[int]]) -> dict[str, Any]:
    buffers = ", ".join(f"{name}_buffer_bytes" for name in ("inp", "wgt", "acc", "par"))
    return {
        "base": "lathe16",
        "machine": {
            "block_in, block_out": blocks,
            buffers: scratchpads,
            "memory.bus_bits": BUSES,
            "memory.latency": LATENCIES,
        },
        "workloads": [{"onnx": {"path": str(model)}}],
        "schedules": "shared",
    }


def run(source: dict[str, Any], jobs: int) -> tuple[list[dict[str, Any]], float, float]:
    """The rows, and the seconds and CPU-seconds that they took, with nothing in the cache before."""
    with tempfile.TemporaryDirectory() as folder:
        os.environ["LATHE_CACHE"] = folder
        before, start = _used(), time.perf_counter()
        rows = lt.sweep(source, output=Path(folder) / "results.db", jobs=jobs, timeout=HOUR)
        return rows, time.perf_counter() - start, _used() - before


def _used() -> float:
    used = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in used)


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        float_model, model = Path(folder) / "float.onnx", Path(folder) / "resnet18.onnx"
        onnx.save(resnet18(PIXELS), float_model)
        quantize_static(
            float_model, model, Pictures(), quant_format=QuantFormat.QDQ, per_channel=True,
            extra_options={"ActivationSymmetric": True},
        )  # fmt: skip
        rows, took, used = run(sweep_of(model, BLOCKS, SCRATCHPADS), 2)
        some = sweep_of(model, [BLOCKS[0], BLOCKS[3]], SCRATCHPADS[:2])
        (_, one, _), (_, two, _) = run(some, 1), run(some, 2)
    ok = [row for row in rows if row["status"] == "ok"]
    report(
        [
            Figure("points", len(rows), ""),
            Figure("points with numbers", len(ok), ""),
            Figure("wall time on two cores", round(took, 1), "s"),
            at_most("CPU time of a point", used / len(rows), "CPU-s", 6),
            at_least("rate of two cores against one", one / two, "times", 1.8),
            Figure("fewest cycles", min(row["cycles"] for row in ok), ""),
            Figure("most cycles", max(row["cycles"] for row in ok), ""),
        ],
        __doc__ or "",
    )


if __name__ == "__main__":
    main()
