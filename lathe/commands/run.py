"""`lathe run`: run the digits network, a script or a model on a machine."""

import sys
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, redirect_stdout
from pathlib import Path
from typing import Any

import click
from rich.progress import BarColumn, MofNCompleteColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as ProgressBar

from lathe.builder import on_build
from lathe.commands.network_run import run_model
from lathe.commands.options import (
    FILE,
    check_of_models_only,
    check_of_network_only,
    config_option,
    given,
    is_model,
    json_option,
    result_option,
    shape_option,
)
from lathe.commands.summaries import (
    bytes_table,
    efficiency_text,
    labels_dict,
    labels_table,
    print_result,
    result_dict,
    units_table,
)
from lathe.commands.terminal import console, grouped, notes, percent, print_json, table
from lathe.configs import HardwareConfig, load_config
from lathe.configs.atomic import check_writable
from lathe.cycle_attribution import cycles_by_label
from lathe.engines import CYCLE_MODEL, engine_named
from lathe.networks.digits.job import Job, Progress, run_digits
from lathe.networks.digits.network import DEFAULT_BATCH
from lathe.reports.result_file import write_result
from lathe.scripts import ScriptError, check_machine_of, run_script
from lathe.sim import Result

DEFAULT_TRACE = Path("lathe-run.trace.json")
OUTPUTS_DIFFER = 1


@click.command()
@click.argument("script", metavar="[SCRIPT|MODEL.onnx]", required=False, type=FILE)
@click.argument("inputs", metavar="[INPUTS.npz]", required=False, type=FILE)
@config_option
@click.option("--random", "seed", type=int, default=0, help="The seed of a model's random inputs, without INPUTS.npz.")
@shape_option
@click.option(
    "--batch",
    type=int,
    help="Images per launch (digits network); blank ones pad the last launch.  "
    f"[default: {DEFAULT_BATCH}, or all images if there are fewer]",
)
@click.option(
    "--engine",
    metavar="ENGINE",
    help="The engine: sim (the cycle model), or verilator or pysim (the RTL), which for the digits network are "
    "compared with sim.  "
    f"[default: {CYCLE_MODEL}]",
)
@click.option("--images", type=int, help="The number of images to run, of 360 (digits network).")
@click.option(
    "-o",
    "--output",
    "trace_path",
    type=FILE,
    help=f"Write the trace to this file, for ui.perfetto.dev.  [default: {DEFAULT_TRACE} for the digits network]",
)
@result_option
@json_option
@click.pass_context
def run(
    ctx: click.Context,
    script: Path | None,
    inputs: Path | None,
    config_name: str,
    seed: int,
    shapes: tuple[str, ...],
    batch: int | None,
    engine: str | None,
    images: int | None,
    trace_path: Path | None,
    result_path: Path | None,
    as_json: bool,
) -> None:
    """Run the digits network, a script, or an ONNX model.

    Without SCRIPT the digits network of Lathe runs: two convolutions, pooling and a dense layer in int8, on images that
    were held out from its training. Every output is compared with NumPy's.

    SCRIPT is a Python file. If it defines main(cfg), that function is called with the machine of -c; otherwise the
    script runs like a Python program, with the machine's name as its first argument (sys.argv[1]). If main returns the
    result of lt.simulate, or the script has it in a variable "result", its cycles by layer and its bytes are printed,
    -o writes its trace, and --result writes the result. It is an error if the script builds only for other machines
    than a given -c.

    MODEL.onnx is compiled for the machine, run with the arrays of INPUTS.npz, by name, or with random ones, and
    compared with onnxruntime. Layers between QuantizeLinear and DequantizeLinear run on the NPU if the machine has the
    extensions that they require (lathe16 has); all other nodes run on the host CPU.
    """
    machine = load_config(config_name)
    if result_path is not None:
        check_writable(result_path)
    if script is not None and is_model(script):
        check_of_network_only(ctx, script, "batch", "images")
        if trace_path is not None:
            raise ScriptError(
                "-o must be left out for a model: each of its streams has a trace. Use --result, which "
                "`lathe report` shows."
            )
        if inputs is not None and given(ctx, "seed"):
            raise ScriptError(f"--random must be left out with the inputs {str(inputs)!r}, not {seed}. Choose one.")
        run_model(script, inputs, seed, shapes, machine, engine or CYCLE_MODEL, result_path, as_json)
        return
    check_of_models_only(**{"INPUTS.npz": inputs, "--shape": shapes})
    check_of_network_only(ctx, script, "batch", "images")
    if trace_path is not None:
        check_writable(trace_path)
    if script is not None:
        if engine is not None:
            raise ScriptError(
                f"--engine must be left out for the script {str(script)!r}, not {engine!r}. A script sets the engine "
                "in its call of lt.simulate."
            )
        required = machine if given(ctx, "config_name") else None
        show_script(script, config_name, required, trace_path, result_path, as_json)
        return
    written = trace_path or DEFAULT_TRACE
    check_writable(written)
    with progress_on_terminal() as progress:
        job = run_digits(machine, images=images, batch=batch, engine=engine or CYCLE_MODEL, progress=progress)
    job.first.write_chrome_trace(written)
    if result_path is not None:
        write_result(result_path, job.first.program, [job.first])
    if as_json:
        print_json(job_dict(job, written))
    else:
        print_job(job, written)
    if job.wrong_outputs or job.differences:
        ctx.exit(OUTPUTS_DIFFER)


@contextmanager
def progress_on_terminal() -> Iterator[Progress]:
    """Show a progress bar on standard error while the job runs, if that is a terminal."""
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with ProgressBar(*columns, console=notes(), transient=True, disable=not sys.stderr.isatty()) as bar:
        task = bar.add_task("starting", total=None)

        def show(stage: str, done: int, total: int) -> None:
            bar.update(task, description=stage, completed=done, total=total)

        yield show


def show_script(
    path: Path,
    config_name: str,
    required: HardwareConfig | None,
    trace_path: Path | None,
    result_path: Path | None,
    as_json: bool,
) -> None:
    """Run a script, and show its result, if any. ``required``: the machine that it must build for, if any."""
    machines: list[HardwareConfig] = []
    # With --json, standard output is for the JSON alone.
    with (
        redirect_stdout(sys.stderr) if as_json else nullcontext(),
        on_build(lambda _, machine, __: machines.append(machine)),
    ):
        result = run_script(path, ("main",), "result", config_name)
    if isinstance(result, Result):
        machines.append(result.program.config)
    if required is not None:
        check_machine_of(path, required, machines, "main")
    if isinstance(result, Result):
        if trace_path is not None:
            result.write_chrome_trace(trace_path)
        if result_path is not None:
            write_result(result_path, result.program, [result])
        if as_json:
            print_json(result_dict(result))
            return
        console().print()  # a blank line after the output of the script
        print_result(result)
    elif as_json or trace_path is not None or result_path is not None:
        raise ScriptError(
            f"The script {str(path)!r} must return the result of lt.simulate from main, or have it in its variable "
            f"'result', for --json, -o and --result, not {result!r}. Return a result, or leave out these options."
        )


def job_dict(job: Job, trace_path: Path) -> dict[str, Any]:
    """The job as plain values."""
    compared = {} if job.differences is None else {"equals_sim": not job.differences, "differences": job.differences}
    return {
        "machine": job.machine.name,
        "engine": job.engine,
        **compared,
        "images": job.images,
        "batch": job.batch,
        "launches": job.launches,
        "correct": job.correct,
        "accuracy": job.correct / job.images,
        "outputs": job.outputs.size,
        "wrong_outputs": job.wrong_outputs,
        "cycles": job.cycles,
        "cycles_per_image": job.cycles / job.images,
        "utilisation": job.utilisation,
        "efficiency": job.efficiency,
        "launch": job.first.counters.to_dict(),
        "layers": labels_dict(cycles_by_label(job.first)),
        "build_seconds": round(job.build_seconds, 3),
        "simulate_seconds": round(job.simulate_seconds, 3),
        "trace": str(trace_path),
    }


def compared_row(job: Job) -> list[tuple[str, str]]:
    """The row on the comparison of an engine with the cycle model, if there was one."""
    if job.differences is None:
        return []
    what = f"{grouped(job.outputs.size)} outputs, {grouped(job.first.cycles)} cycles, each instruction"
    return [(f"compared with {CYCLE_MODEL}", f"{'DIFFERENT, see below' if job.differences else 'all equal'}  ({what})")]


def print_job(job: Job, trace_path: Path) -> None:
    """Print the job as tables."""
    counters = job.first.counters
    equal = "all equal" if job.wrong_outputs == 0 else f"{grouped(job.wrong_outputs)} DIFFER"
    what = engine_named(job.engine).what
    rows = [
        ("accuracy", f"{percent(job.correct / job.images)}  ({job.correct} of {job.images} images)"),
        ("compared with NumPy", f"{equal}  ({grouped(job.outputs.size)} outputs)"),
        *compared_row(job),
        ("cycles per image", f"{grouped(round(job.cycles / job.images))}  (launches of {job.batch} images)"),
        ("utilisation", f"{percent(job.utilisation)}  (GEMM operations / cycles)"),
        ("efficiency", efficiency_text(job.efficiency)),
        ("program", f"{grouped(len(job.first.program.instructions))} instructions, built in {job.build_seconds:.2f} s"),
        ("simulation", f"{grouped(job.cycles)} cycles in {job.simulate_seconds:.2f} s  ({what})"),
    ]
    out = console()
    out.print(table(f"Digits network on {job.machine.name}", ["", ""], rows, left=2))
    out.print()
    out.print(labels_table(cycles_by_label(job.first), job.first.cycles, job.batch))
    out.print()
    out.print(units_table(counters))
    out.print()
    out.print(bytes_table(counters, job.launches))
    for difference in job.differences or ():
        out.print(f"\n{difference}", soft_wrap=True, markup=False)
    out.print(f"\nTrace of the first launch: {trace_path}  (open it at https://ui.perfetto.dev)", soft_wrap=True)
