"""`lathe report`: write an HTML page about a run, a network, a schedule or a sweep."""

import sys
from collections.abc import Sequence
from contextlib import redirect_stdout
from dataclasses import replace
from pathlib import Path
from typing import Literal

import click

from lathe.commands.models import note_float, shapes_of
from lathe.commands.options import FILE, check_of_models_only, config_option, given, is_model, shape_option
from lathe.configs import HardwareConfig, load_config
from lathe.configs.atomic import check_writable
from lathe.isa import Program
from lathe.networks.files import holds_network
from lathe.networks.network import from_onnx
from lathe.networks.program import NetworkProgram
from lathe.reports.comparison_page import pair_page
from lathe.reports.errors import ReportError
from lathe.reports.extra import plotting_library
from lathe.reports.report_inputs import (
    run_of_model,
    run_of_network_program,
    run_of_program,
    run_of_result_file,
    run_of_script,
)
from lathe.reports.result_file import holds_result
from lathe.reports.run_model import Run
from lathe.reports.run_page import run_page
from lathe.reports.sweep_page import sweep_page
from lathe.scripts import check_machine_of

Kind = Literal["model", "script", "store", "archive"]

PAGES = (".html", ".htm")
PAIR = 2
SQLITE = b"SQLite format 3\0"
ZIP = b"PK"
CHROME_TRACE = b'{"displayTimeUni'


@click.command()
@click.argument(
    "subjects",
    metavar="RESULT.npz|PROGRAM.npz|MODEL.onnx|SCRIPT.py|RESULTS.db [SECOND]",
    type=FILE,
    nargs=-1,
    required=True,
)
@config_option
@shape_option
@click.option("-o", "--output", type=FILE, required=True, help="The .html file to write.")
@click.pass_context
def report(
    ctx: click.Context, subjects: tuple[Path, ...], config_name: str, shapes: tuple[str, ...], output: Path
) -> None:
    """Write a self-contained HTML page, which works offline (extra `reports`).

    RESULT.npz is the output of `lathe run` or `lathe simulate` with --result; PROGRAM.npz is a program or network of
    `lathe compile`, which is simulated first. The page has a timeline, a roofline, an attribution of cycles, and the
    instructions. MODEL.onnx and SCRIPT.py are compiled for the machine of -c, and their pages also have the schedules
    at every lowering level. SCRIPT.py is called or run as by `lathe compile` and `lathe run`; the page shows what it
    passes to lt.build. RESULTS.db is the store of a sweep.

    Two files, except stores, are compared: A and B with the same axes, and differences by layer. They may be for
    different machines.
    """
    if len(subjects) > PAIR:
        raise ReportError(f"A page must have one file, or two to compare, not {len(subjects)}. Give at most two.")
    if output.suffix.lower() not in PAGES:
        raise ReportError(
            f"The page of a report must be a file with one of the suffixes {', '.join(PAGES)}, not {str(output)!r}. "
            "Correct the name after -o."
        )
    check_writable(output)
    plotting_library()  # fails early if it is not installed
    kinds = [kind_of(subject) for subject in subjects]
    _check_options(ctx, subjects, kinds, config_name, shapes)
    if kinds == ["store"]:
        sweep_page(subjects[0]).write(output)
        return
    if "store" in kinds:
        store = str(subjects[kinds.index("store")])
        raise ReportError(
            f"Cannot compare {store!r} with another file: it is the store of a sweep. Give it alone; its page compares "
            "points."
        )
    runs = [run_of(ctx, *each, config_name, shapes) for each in zip(subjects, kinds, strict=True)]
    if len(runs) == PAIR and runs[0].name == runs[1].name:
        runs = [replace(run, name=str(subject)) for run, subject in zip(runs, subjects, strict=True)]
    page = pair_page(*runs) if len(runs) == PAIR else run_page(*runs)
    page.write(output)


def kind_of(subject: Path) -> Kind:
    """The kind of a file, by its name or first bytes. Raises ReportError for an unknown one."""
    begins = first_bytes(subject)
    if is_model(subject):
        return "model"
    if subject.suffix == ".py":
        return "script"
    if begins == SQLITE:
        return "store"
    if begins.startswith(ZIP):
        return "archive"
    if begins == CHROME_TRACE:
        raise ReportError(
            f"The file {str(subject)!r} must be a result, not a trace for Perfetto, which lacks the program. "
            "Write a result with --result of `lathe run` or `lathe simulate`."
        )
    raise ReportError(
        f"The file {str(subject)!r} must be a result, program, network, model, script or store of a sweep, and is none "
        "of these. Correct the path."
    )


def _check_options(
    ctx: click.Context, subjects: Sequence[Path], kinds: Sequence[Kind], config_name: str, shapes: tuple[str, ...]
) -> None:
    """Raise an error for -c or --shape if they apply to none of the files."""
    if "model" not in kinds:
        check_of_models_only(**{"--shape": shapes})
    if given(ctx, "config_name") and not {"model", "script"} & {*kinds}:
        which = " and ".join(repr(str(subject)) for subject in subjects)
        has = "each includes its machine" if len(subjects) > 1 else "it includes its machine"
        raise ReportError(
            f"-c must be left out for {which}, not {config_name!r}: {has}. Give a script or model to choose another."
        )


def run_of(ctx: click.Context, subject: Path, kind: Kind, config_name: str, shapes: tuple[str, ...]) -> Run:
    """The run of a result file, or the simulated run of a program, model or script."""
    if kind == "model":
        network = from_onnx(subject, shapes_of(shapes))
        note_float(subject, network.model)
        return run_of_model(subject.name, network, load_config(config_name))
    if kind == "script":
        machine = load_config(config_name)
        explicit = given(ctx, "config_name")

        def check(machines: Sequence[HardwareConfig]) -> None:
            if explicit:
                check_machine_of(subject, machine, machines, "build")

        with redirect_stdout(sys.stderr):
            return run_of_script(subject, config_name, check)
    if holds_result(subject):
        return run_of_result_file(subject)
    if holds_network(subject):
        return run_of_network_program(subject.name, NetworkProgram.load(subject))
    return run_of_program(subject.name, Program.load(subject))


def first_bytes(path: Path) -> bytes:
    """The first bytes of a file. Raises ReportError if it cannot be read."""
    try:
        with path.open("rb") as file:
            return file.read(len(SQLITE))
    except OSError as error:
        raise ReportError(f"Cannot read the file {str(path)!r}: {error.strerror}. Correct the path.") from None
