"""Lets the tests of this folder import the modules beside them: the machines, and how a program is checked."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
