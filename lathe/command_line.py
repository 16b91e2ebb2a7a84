"""The `lathe` command: registers the subcommands, and reports a user's error as one paragraph with exit status 2."""

import atexit
import errno
import gc
import os
import sys
from typing import Any

import click

from lathe.commands.asm import asm
from lathe.commands.compile import compile
from lathe.commands.configs import configs
from lathe.commands.disasm import disasm
from lathe.commands.explain import explain
from lathe.commands.quantize import quantize
from lathe.commands.replay import replay
from lathe.commands.report import report
from lathe.commands.results import results
from lathe.commands.rtl import rtl
from lathe.commands.run import run
from lathe.commands.simulate import simulate
from lathe.commands.sweep import sweep
from lathe.commands.verify import verify
from lathe.configs import LatheError
from lathe.isa import MachineFault

USER_ERROR = 2

# Python's final garbage collection for reference cycles takes longer than all else that Ctrl-C has to end.
atexit.register(gc.freeze)


class ErrorReportingGroup(click.Group):
    """A group of commands that prints a LatheError as a paragraph on standard error, without its traceback."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        """The subcommands in the order in which they were added, which is the order of typical use."""
        return list(self.commands)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the subcommand; with `--debug` errors propagate."""
        try:
            return super().invoke(ctx)
        except LatheError as error:
            if ctx.params["debug"]:
                raise
            notes = [*getattr(error, "__notes__", [])]
            if isinstance(error, MachineFault):
                notes.append(_describe_fault(error))
            if error.kind == "limit":
                notes.append("(Lathe does not support this; neither the machine nor the program forbids it.)")
            click.echo(" ".join([f"Error: {error}", *notes]), err=True)
            ctx.exit(USER_ERROR)
        except OSError as error:
            if error.errno != errno.ENOSPC or error.filename is not None or ctx.params["debug"]:
                raise
            # Failed writes to files are reported where they happen, with the file's name.
            click.echo("Error: Cannot write to standard output: no space left on device. Free some space.", err=True)
            _discard_output()
            ctx.exit(USER_ERROR)


def _discard_output() -> None:
    """Discard unwritten output: Python would try to flush it at exit, and report the same error again."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())


def _describe_fault(fault: MachineFault) -> str:
    """A fault's code, with the cycle and instruction where they are known."""
    when = "" if fault.cycle is None else f", in cycle {fault.cycle}"
    which = "" if fault.instruction is None else f", instruction {fault.instruction}"
    return f"(Fault {fault.code.value}, {fault.code.name}{when}{which}.)"


@click.group(
    cls=ErrorReportingGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100}
)
@click.version_option(package_name="lathe-npu", prog_name="lathe")
@click.option("--debug", is_flag=True, help="Show the traceback of an error.")
def main(debug: bool) -> None:
    """Compile tensor programs for a configurable NPU, simulate every cycle and check every bit.

    Without a script, `lathe run` compiles and simulates the digits network that comes with Lathe.

    Exit status: 0 on success, 1 when a check fails (outputs that differ, findings of `verify`), 2 when the command line
    or a file it names is wrong. A command that fails writes no file.
    """


for command in (
    run, compile, explain, simulate, quantize, replay, disasm, asm, verify, sweep, results, report, rtl, configs,
):  # fmt: skip
    main.add_command(command)
