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
    """`-c` for commands that take minutes, and for which no machine is the usual one."""
    return click.option("-c", "--config", "config_name", metavar="CONFIG", required=True, help=CONFIG_HELP)(command)


def given(ctx: click.Context, name: str) -> bool:
    """Whether the command line gives an option, in contrast to its default."""
    return ctx.get_parameter_source(name) is ParameterSource.COMMANDLINE


def check_of_network_only(ctx: click.Context, script: Path | None, *names: str) -> None:
    """Raise ScriptError if the command line gives one of these options of the digits network beside a script."""
    for name in names:
        if script is not None and given(ctx, name):
            option = f"--{name.replace('_', '-')}"
            what, why = ("model", "has its shapes") if is_model(script) else ("script", "decides for itself")
            raise ScriptError(
                f"{option} must be left out for the {what} {str(script)!r}, not {ctx.params[name]!r}. It is an option "
                f"of the digits network; a {what} {why}."
            )


def is_model(path: Path | None) -> bool:
    """Whether a file is to be read as a model of ONNX: by its suffix."""
    return path is not None and path.suffix == ".onnx"


def check_of_models_only(**values: object) -> None:
    """Raise ScriptError if one of these is given, by the words that the command line has for it."""
    for name, value in values.items():
        if value:
            raise ScriptError(f"{name} must be left out without a model, MODEL.onnx, not {value!r}.")


def shape_option(command: Decorated) -> Decorated:
    """`--shape`: what open dimensions of a model are."""
    return click.option(
        "--shape", "shapes", multiple=True, metavar="x=1,3,48,192", help="The shape of an input of a model."
    )(command)


def json_option(command: Decorated) -> Decorated:
    """`--json`: print JSON and nothing else."""
    return click.option("--json", "as_json", is_flag=True, help="Print JSON instead of tables.")(command)


def engine_option(command: Decorated) -> Decorated:
    """`--engine`: what runs the program, or which engines run it and are compared."""
    return click.option(
        "--engine",
        metavar="ENGINE",
        default=CYCLE_MODEL,
        show_default=True,
        help="What runs it: sim (the cycle model), verilator or pysim (the RTL); or all, which is sim,verilator: "
        "engines with commas between them are compared in every bit and cycle.",
    )(command)


def wave_option(command: Decorated) -> Decorated:
    """`--wave`: where the waveform of the RTL goes."""
    return click.option(
        "--wave",
        "wave_path",
        type=FILE,
        help="Write the RTL's waveform there: a .vcd file, or .fst with verilator, which needs the headers of lz4 and "
        "zlib (of several engines the last).",
    )(command)


def stream_config_option(command: Decorated) -> Decorated:
    """`-c` for commands whose file may be a program, which carries its machine."""
    return click.option(
        "-c",
        "--config",
        "config_name",
        metavar="CONFIG",
        help=f"The machine of a raw stream; a program carries its own.  [default: {DEFAULT_CONFIG}]",
    )(command)


def result_option(command: Decorated) -> Decorated:
    """`--result`: where the result goes, to be read again."""
    return click.option(
        "--result", "result_path", type=FILE, help="Write the result there, an .npz file for `lathe report`."
    )(command)


def trace_option(command: Decorated) -> Decorated:
    """`--trace`: where the picture of the time goes."""
    return click.option("--trace", "trace_path", type=FILE, help="Write a trace there, for ui.perfetto.dev.")(command)
