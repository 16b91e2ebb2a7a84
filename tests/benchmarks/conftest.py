"""Lets the tests of this folder import the benchmarks' modules and the makers of streams of other tests."""

import sys
from pathlib import Path

ROOT = Path(__file__).parents[2]
for folder in ("benchmarks", "tests/cosim", "tests/sim"):
    sys.path.insert(0, str(ROOT / folder))
