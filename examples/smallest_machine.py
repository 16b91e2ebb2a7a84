"""Find the smallest machine that computes a layer within a time limit.

    python examples/smallest_machine.py [--microseconds 300]

Size is the number of multipliers, then the bytes of scratchpads. It requires no packages besides Lathe.
"""

import argparse

import lathe as lt

BUFFERS = ("inp_buffer_bytes", "wgt_buffer_bytes", "acc_buffer_bytes")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--microseconds", type=float, default=300.0)
    limit = parser.parse_args().microseconds
    rows = lt.sweep(
        {
            "base": "vta",
            "machine": {
                "block_in": [16, 32],
                "block_out": [16, 32],
                ", ".join(BUFFERS): [[size << 10 for size in sizes] for sizes in ([8, 64, 32], [32, 256, 128])],
                "clock_mhz": 200,
                "dram": "lpddr3_1600",
            },
            "constraints": ["inp_buffer_bytes + wgt_buffer_bytes + acc_buffer_bytes <= 2**20"],
            "workloads": [{"conv2d": {"height": 28, "width": 28, "channels": 64, "filters": 64, "padding": 1}}],
        },
        check=True,
    )
    within = [row for row in rows if row["status"] == "ok" and row["time_us"] <= limit]
    wrong = [row for row in rows if row["status"] == "outputs differ"]
    assert not wrong
    print(f"{len(rows)} machines, outputs equal to NumPy; {len(within)} take at most {limit:g} µs")
    if not within:
        print(f"the fastest takes {min(row['time_us'] for row in rows if row['status'] == 'ok'):.1f} µs")
        return
    best = min(within, key=lambda row: (row["block_in"] * row["block_out"], sum(row[name] for name in BUFFERS)))
    sizes = ", ".join(f"{name.partition('_')[0]} {best[name] >> 10} KiB" for name in BUFFERS)
    print(f"smallest: {best['block_in']} × {best['block_out']}, {sizes}: {best['time_us']:.1f} µs")


if __name__ == "__main__":
    main()
