"""Shared by the tests of pages: a script with a tail, screen sizes, and the condition that a timeline is drawn."""

from pathlib import Path

import lathe as lt

LAPTOP, PHONE = (1366, 768), (390, 844)
DRAWN = "performance.getEntriesByName('first picture').length > 0"

SCRIPT = (Path(__file__).parents[2] / "examples" / "tail.py").read_text().partition("\nif __name__")[0]
"""Rows in three chunks of 16, and one of 12."""


def program_of_script(config="vta"):
    """The program that the script builds."""
    names = {}
    exec(SCRIPT, names)
    return names["build"](lt.load_config(config))
