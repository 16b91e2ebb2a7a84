"""`lathe report`: a run, a network, a schedule or a sweep as one page to look at."""

import sys
from collections.abc import Sequence
from contextlib import redirect_stdout
from pathlib import Path

import click

from lathe.commands.models import note_float, shapes_of
from lathe.commands.options import FILE, check_of_models_only, config_option, given, is_model, shape_option
from lathe.configs import HardwareConfig, load_config
from lathe.configs.atomic import check_writable
from lathe.isa import Program
from lathe.networks.files import holds_network
from lathe.networks.network import from_onnx
from lathe.networks.program import NetworkProgram
from lathe.reports.errors import ReportError
from lathe.reports.extra import plotting_library
from lathe.reports.page import Page
from lathe.reports.result_file import holds_result
from lathe.reports.run_page import run_page
from lathe.reports.subjects import (
    run_of_model,
    run_of_network_program,
    run_of_program,
    run_of_result_file,
    run_of_script,
)
from lathe.reports.sweep_page import sweep_page
from lathe.scripts import check_machine_of

SQLITE = b"SQLite format 3\0"
ZIP = b"PK"
CHROME_TRACE = b'{"displayTimeUni'


@click.command()
@click.argument("subject", metavar="RESULT.npz|PROGRAM.npz|MODEL.onnx|SCRIPT.py|RESULTS.db", type=FILE)
@config_option
@shape_option
@click.option("-o", "--output", type=FILE, required=True, help="The .html file to write.")
@click.pass_context
def report(ctx: click.Context, subject: Path, config_name: str, shapes: tuple[str, ...], output: Path) -> None:
    """Write a page to look at: one file of HTML, which needs no network (extra `reports`).

    RESULT.npz is what `lathe run` and `lathe simulate` write with --result, PROGRAM.npz a program or network of `lathe
    compile`, which is simulated first. The page has a timeline, a roofline, where cycles went, and the instructions.
    MODEL.onnx and SCRIPT.py are compiled for the machine of -c, and their pages have the schedules, too, level by
    level. SCRIPT.py is called or run as `lathe compile` and `lathe run` do it; what it gives to lt.build is shown.
    RESULTS.db is the store of a sweep.
    """
    check_writable(output)
    plotting_library()  # before long work: without it there is no page
    page_of(ctx, subject, config_name, shapes).write(output)


def page_of(ctx: click.Context, subject: Path, config_name: str, shapes: tuple[str, ...]) -> Page:
    """The page of a file, by what the file is. Raises ReportError for one that is none of these."""
    begins = first_bytes(subject)
    machine = load_config(config_name)
    if is_model(subject):
        network = from_onnx(subject, shapes_of(shapes))
        note_float(subject, network.model)
        return run_page(run_of_model(subject.name, network, machine))
    check_of_models_only(**{"--shape": shapes})
    if subject.suffix == ".py":
        wanted = given(ctx, "config_name")

        def check(machines: Sequence[HardwareConfig]) -> None:
            if wanted:
                check_machine_of(subject, machine, machines, "build")

        with redirect_stdout(sys.stderr):
            return run_page(run_of_script(subject, config_name, check))
    if given(ctx, "config_name"):
        raise ReportError(
            f"-c must be left out for {str(subject)!r}, not {config_name!r}: it has its own machine. Give a script or "
            "a model for another one."
        )
    if begins == SQLITE:
        return sweep_page(subject)
    if begins.startswith(ZIP):
        if holds_result(subject):
            return run_page(run_of_result_file(subject))
        if holds_network(subject):
            return run_page(run_of_network_program(subject.name, NetworkProgram.load(subject)))
        return run_page(run_of_program(subject.name, Program.load(subject)))
    if begins == CHROME_TRACE:
        raise ReportError(
            f"The file {str(subject)!r} must be a result, not a trace for Perfetto, which does not have the program. "
            "Write one with --result of `lathe run` or `lathe simulate`."
        )
    raise ReportError(
        f"The file {str(subject)!r} must be a result, a program, a network, a model, a script or the store of a sweep, "
        "and is none of these. Correct the path."
    )


def first_bytes(path: Path) -> bytes:
    """What a file begins with. Raises ReportError for one that cannot be read."""
    try:
        with path.open("rb") as file:
            return file.read(len(SQLITE))
    except OSError as error:
        raise ReportError(
            f"The file {str(path)!r} must be one that can be read, and is not: {error.strerror}. Correct the path."
        ) from None
