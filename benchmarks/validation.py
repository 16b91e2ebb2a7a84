"""The cost of translation validation: the 56×56×64→64 convolution (3×3, padding 1) on `vta`, and small programs.

    python benchmarks/validation.py [--json]

It requires no packages besides Lathe.
"""

import sys
import time
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))

from end_to_end import convolution
from figures import Figure, at_most, one_core, report, seconds

import lathe as lt
from lathe.builder import build
from lathe.scheduler.build import build_compiled
from lathe.validation import validate
from lathe.validation.stream_validator import validate_stream


def main() -> None:
    one_core()
    config = lt.load_config("vta")
    output, tensors = convolution()
    made = build_compiled(output, tensors, config)
    start = time.perf_counter()
    build(output, tensors, config, check="passes")
    passes = time.perf_counter() - start
    A, B = lt.placeholder((20, 64), "int8", name="A"), lt.placeholder((24, 64), "int8", name="B")
    small = lt.requantise(lt.matmul(A, B, transpose_b=True, name="P"), 8, name="C")
    small_made = build_compiled(small, [A, B, small], config)
    report(
        [
            at_most("validation of the convolution", seconds(lambda: validate(made, [output]), runs=5), "s", 2),
            Figure("of it, following the stream", seconds(lambda: validate_stream(made), runs=5), "s"),
            Figure("its build with check='passes'", passes, "s"),
            Figure("validation of a small product", seconds(lambda: validate(small_made, [small]), runs=9), "s"),
        ],
        __doc__ or "",
    )


if __name__ == "__main__":
    main()
