"""Sweep eight machines on ResNet-18: two shapes of the matrix core, two scratchpad sizes, two bus widths.

    python examples/sweep_resnet18.py [--pixels 224] [--store results.db] [--check]

It requires the extra `onnx`. The model is a float model with seeded weights (`examples/models/resnet.py`), which is
quantised first. --store writes the rows to a file for `lathe results`. --check compares outputs with NumPy.
"""

import argparse
import sys
import tempfile
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent / "models"))

import numpy as np
import onnx
from resnet import resnet18

import lathe as lt


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pixels", type=int, default=224)
    parser.add_argument("--store", type=Path)
    parser.add_argument("--check", action="store_true")
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "resnet18.onnx"
        rng = np.random.default_rng(1)
        pictures = {"image": rng.standard_normal((2, 1, 3, given.pixels, given.pixels), np.float32)}
        onnx.save(lt.quantize(resnet18(given.pixels), pictures), path)
        rows = lt.sweep(
            {
                "base": "lathe16",
                "machine": {
                    "block_in, block_out": [16, 32],
                    # Keys in one string change together.
                    "inp_buffer_bytes, wgt_buffer_bytes, acc_buffer_bytes, par_buffer_bytes": [
                        [16384, 131072, 65536, 16384],
                        [32768, 262144, 131072, 32768],
                    ],
                    "memory.bus_bits": [64, 128],
                    "clock_mhz": 200,
                },
                "workloads": [{"onnx": {"path": path}}],
                "schedules": "shared",
            },
            output=given.store,
            check=given.check,
        )
    for row in rows:
        machine = f"{row['block_in']:2} × {row['block_out']:2}, {row['wgt_buffer_bytes'] >> 10:3} KiB of weights, "
        machine += f"bus of {row['memory.bus_bits']:3} bits"
        if row["status"] != "ok":
            print(f"{machine}: {row['status']}: {row['reason']}")
            continue
        print(f"{machine}: {row['time_us'] / 1000:7.3f} ms, {row['energy_pj'] / 1e6:7.1f} µJ, {row['efficiency']:.1%}")
    if given.check:
        assert all(row["status"] == "ok" for row in rows)
        print("all outputs are equal to NumPy's")


if __name__ == "__main__":
    main()
