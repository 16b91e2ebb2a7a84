"""Options that several commands share."""

from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import click
from click.core import ParameterSource

from lathe.engines import CYCLE_MODEL
from lathe.scripts import ScriptError

Decorated = TypeVar("Decorated", bound=Callable[..., Any])

DEFAULT_CONFIG = "vta"

FILE = click.Path(path_type=Path)


CONFIG_HELP = "The machine: a shipped configuration's name (see `lathe configs`) or a YAML file."


def config_option(command: Decorated) -> Decorated:
    """`-c`: the machine, as the name of a shipped configuration or the path of a YAML file."""
    return click.option(
        "-c", "--config", "config_name", metavar="CONFIG", default=DEFAULT_CONFIG, show_default=True, help=CONFIG_HELP
    )(command)


def required_config_option(command: Decorated) -> Decorated:
    """`-c` without a default, for commands that take minutes."""
    return click.option("-c", "--config", "config_name", metavar="CONFIG", required=True, help=CONFIG_HELP)(command)


def given(ctx: click.Context, name: str) -> bool:
    """Whether an option is on the command line, rather than at its default."""
    return ctx.get_parameter_source(name) is ParameterSource.COMMANDLINE


def check_of_network_only(ctx: click.Context, script: Path | None, *names: str) -> None:
    """Raise ScriptError if the command line has a script and one of these options of the digits network."""
    for name in names:
        if script is not None and given(ctx, name):
            option = f"--{name.replace('_', '-')}"
            what, why = ("model", "has fixed shapes") if is_model(script) else ("script", "sets this value itself")
            raise ScriptError(
                f"{option} must be left out for the {what} {str(script)!r}, not {ctx.params[name]!r}. It applies to "
                f"the digits network only; a {what} {why}."
            )


def is_model(path: Path | None) -> bool:
    """Whether a file is an ONNX model, by its suffix."""
    return path is not None and path.suffix == ".onnx"


def check_of_models_only(**values: object) -> None:
    """Raise ScriptError if one of these options or arguments, which apply to models only, has a value."""
    for name, value in values.items():
        if value:
            raise ScriptError(f"{name} must be left out unless MODEL.onnx is given, not {value!r}.")


def shape_option(command: Decorated) -> Decorated:
    """`--shape`: the shape of a model's input with symbolic dimensions."""
    return click.option(
        "--shape", "shapes", multiple=True, metavar="x=1,3,48,192", help="The shape of a model's input."
    )(command)


def json_option(command: Decorated) -> Decorated:
    """`--json`: print JSON and nothing else."""
    return click.option("--json", "as_json", is_flag=True, help="Print JSON instead of tables.")(command)


def engine_option(command: Decorated) -> Decorated:
    """`--engine`: the engine that runs the program, or several to compare."""
    return click.option(
        "--engine",
        metavar="ENGINE",
        default=CYCLE_MODEL,
        show_default=True,
        help="The engine: sim (the cycle model), verilator or pysim (the RTL). Of a comma-separated list, all results "
        "and cycles are compared; all is sim,verilator.",
    )(command)


def wave_option(command: Decorated) -> Decorated:
    """`--wave`: the file for the waveform of the RTL."""
    return click.option(
        "--wave",
        "wave_path",
        type=FILE,
        help="Write the RTL's waveform to this file: .vcd, or .fst with verilator, which requires the headers of lz4 "
        "and zlib. With several engines it is the last one's.",
    )(command)


def stream_config_option(command: Decorated) -> Decorated:
    """`-c` for commands whose file may be a program, which includes its machine."""
    return click.option(
        "-c",
        "--config",
        "config_name",
        metavar="CONFIG",
        help=f"The machine of a raw stream; a program includes its own.  [default: {DEFAULT_CONFIG}]",
    )(command)


def result_option(command: Decorated) -> Decorated:
    """`--result`: the file for the result, which `lathe report` reads."""
    return click.option(
        "--result", "result_path", type=FILE, help="Write the result to this .npz file, for `lathe report`."
    )(command)


def trace_option(command: Decorated) -> Decorated:
    """`--trace`: the file for the trace of the instructions."""
    return click.option("--trace", "trace_path", type=FILE, help="Write a trace to this file, for ui.perfetto.dev.")(
        command
    )
