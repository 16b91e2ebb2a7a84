"""The `lathe` command, called in the process of a test."""

from click.testing import CliRunner, Result

from lathe.command_line import main


def lathe(*words: object) -> Result:
    """The output of `lathe` with these arguments, and its exit status."""
    return CliRunner().invoke(main, [str(word) for word in words])
