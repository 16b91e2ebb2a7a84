"""Lets the tests of this folder import the modules beside them, the simulator tests' makers of streams, and mutants."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
sys.path.insert(0, str(Path(__file__).parent.parent / "sim"))
sys.path.insert(0, str(Path(__file__).parent.parent / "formal"))
