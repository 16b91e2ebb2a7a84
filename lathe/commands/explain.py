"""`lathe explain`: which instruction rule matches each chunk of a schedule or model, or why none does."""

import sys
from collections.abc import Mapping, Sequence
from contextlib import nullcontext, redirect_stdout
from pathlib import Path

import click

import lathe as lt
from lathe.builder import on_build
from lathe.commands.models import note_float, shapes_of
from lathe.commands.options import (
    FILE,
    check_of_models_only,
    check_of_network_only,
    config_option,
    given,
    is_model,
    json_option,
    shape_option,
)
from lathe.commands.terminal import print_json
from lathe.configs import HardwareConfig, load_config
from lathe.networks.digits.network import DEFAULT_BATCH, digits_network
from lathe.networks.explanation import explain_network
from lathe.networks.network import from_onnx
from lathe.scripts import ScriptError, check_machine_of, run_script

REFUSED = 1
FUNCTIONS = ("schedule", "build", "main")  # the first of these functions that a script defines is called


@click.command()
@click.argument("script", metavar="[SCRIPT|MODEL.onnx]", required=False, type=FILE)
@config_option
@shape_option
@click.option("--batch", default=DEFAULT_BATCH, show_default=True, help="Images per launch (digits network).")
@click.option(
    "--budget", type=click.IntRange(min=1),
    help="Also measure this many schedules, and machines with more of each resource.",
)  # fmt: skip
@json_option
@click.pass_context
def explain(
    ctx: click.Context,
    script: Path | None,
    config_name: str,
    shapes: tuple[str, ...],
    batch: int,
    budget: int | None,
    as_json: bool,
) -> None:
    """Report which instruction rule matches each chunk, or why none does.

    Chunks that differ in offsets only are one line: their count, their padding, and the rule that matched or the
    constraint that failed. The exit status is 1 if the schedule cannot be mapped to the machine.

    SCRIPT is a Python file. If it defines schedule(cfg), that function is called with the machine of -c and must return
    a schedule or tensors, or else build(cfg) or main(cfg) is called; otherwise the script runs like a Python program,
    with the machine's name as its first argument, and may leave the schedule in a variable "schedule". Without a
    schedule, each call of lt.build is explained for its machine, also one that fails; it is an error if none is for a
    given -c. Without SCRIPT the digits network is explained.

    For MODEL.onnx, the report lists for each layer where it runs and why, its lower bound on cycles and what limits
    it, and its chunks.
    """
    machine = load_config(config_name)
    check_of_network_only(ctx, script, "batch")
    if script is not None and is_model(script):
        network = from_onnx(script, shapes_of(shapes))
        explanation = explain_network(network, machine, budget or 0)
        note_float(script, network.model)
        if as_json:
            print_json(explanation.to_dict())
        else:
            click.echo(str(explanation), nl=False)
        if not explanation.maps:
            ctx.exit(REFUSED)
        return
    check_of_models_only(**{"--shape": shapes})
    # With --json, standard output is for the JSON alone.
    with redirect_stdout(sys.stderr) if as_json else nullcontext():
        if script is None:
            explained = [lt.explain(digits_network(batch).logits, machine, budget=budget or 0)]
        else:
            explained = explanations(script, config_name, machine, given(ctx, "config_name"), budget or 0)
    if as_json:
        values = [each.to_dict() for each in explained]
        print_json(values[0] if len(values) == 1 else values)
    else:
        click.echo("\n".join(map(str, explained)), nl=False)
    if not all(each.maps for each in explained):
        ctx.exit(REFUSED)


def explanations(
    path: Path, config_name: str, machine: HardwareConfig, check_machine: bool, budget: int = 0
) -> list[lt.Explanation]:
    """The explanations of a script's schedule, or of each of its builds.

    If ``check_machine``, one of the builds must be for this machine. Raises ScriptError for a script without either.
    """
    found: list[lt.Explanation] = []
    machines: list[HardwareConfig] = []

    def explained(
        program: lt.Schedule | lt.Tensor | Sequence[lt.Tensor],
        own: HardwareConfig,
        parameters: Mapping[str, int] | None,
    ) -> None:
        # Explained immediately: the script may change the schedule later, or lt.build may raise.
        found.append(lt.explain(program, own, parameters=parameters, budget=budget))
        machines.append(own)

    try:
        with on_build(explained):
            returned = run_script(path, FUNCTIONS, "schedule", config_name)
    except lt.LatheError:
        if not found or found[-1].maps:
            raise
        returned = None
    tensors = returned if isinstance(returned, list | tuple) else [returned]
    if isinstance(returned, lt.Schedule) or (tensors and all(isinstance(each, lt.Tensor) for each in tensors)):
        return [lt.explain(returned, machine, budget=budget)]
    if not found:
        raise ScriptError(
            f"The script {str(path)!r} must return a schedule or tensors from schedule(cfg), have them in its variable "
            f"'schedule', or call lt.build, not have {returned!r}. Use the result of lt.create_schedule."
        )
    if check_machine:
        check_machine_of(path, machine, machines, "schedule")
    return found
