"""Lets the tests of this folder import the modules beside them: the per-cycle model and the makers of streams."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
