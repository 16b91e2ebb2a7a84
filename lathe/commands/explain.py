"""`lathe explain`: how the chunks of a script's schedule, a model or the digits network meet the rules of a machine."""

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
FUNCTIONS = ("schedule", "build", "main")  # of a script; the first that it defines is called


@click.command()
@click.argument("script", metavar="[SCRIPT|MODEL.onnx]", required=False, type=FILE)
@config_option
@shape_option
@click.option("--batch", default=DEFAULT_BATCH, show_default=True, help="Images of one launch (digits network).")
@click.option(
    "--budget", type=click.IntRange(min=1),
    help="Try so many schedules, and machines with more of each resource, and say what they take.",
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
    """Say which rule takes each chunk, or why none does.

    Chunks alike but for offsets are one line: their count, their pads, and the rule that took them or the constraint
    that failed. The exit status is 1 when the schedule does not map.

    SCRIPT is a Python file. If it defines schedule(cfg), that is called with the machine of -c and returns a schedule
    or tensors, or else build(cfg) or main(cfg) is called; otherwise the script runs as Python would run it, with the
    machine's name as its first argument, and may leave the schedule in a variable "schedule". Where there is no
    schedule, everything that is given to lt.build is explained, each for its machine, also what lt.build refuses; a
    script that builds only for other machines than a given -c is refused. Without SCRIPT it is the digits network.

    Of MODEL.onnx, each layer is told in turn: where it runs and why, the least cycles that it takes alone and what
    bounds it, and its chunks.
    """
    machine = load_config(config_name)
    check_of_network_only(ctx, script, "batch")
    if script is not None and is_model(script):
        network = from_onnx(script, shapes_of(shapes))
        told = explain_network(network, machine, budget or 0)
        note_float(script, network.model)
        if as_json:
            print_json(told.to_dict())
        else:
            click.echo(str(told), nl=False)
        if not told.maps:
            ctx.exit(REFUSED)
        return
    check_of_models_only(**{"--shape": shapes})
    # With --json, standard output is for the JSON alone.
    with redirect_stdout(sys.stderr) if as_json else nullcontext():
        if script is None:
            found = [lt.explain(digits_network(batch).logits, machine, budget=budget or 0)]
        else:
            found = explanations(script, config_name, machine, given(ctx, "config_name"), budget or 0)
    if as_json:
        values = [each.to_dict() for each in found]
        print_json(values[0] if len(values) == 1 else values)
    else:
        click.echo("\n".join(map(str, found)), nl=False)
    if not all(each.maps for each in found):
        ctx.exit(REFUSED)


def explanations(
    path: Path, config_name: str, machine: HardwareConfig, wanted: bool, budget: int = 0
) -> list[lt.Explanation]:
    """What is to be said of a script: of its schedule, or of each build that it asks for.

    If ``wanted``, one of the builds must be for this machine. Raises ScriptError for a script without either.
    """
    found: list[lt.Explanation] = []
    machines: list[HardwareConfig] = []

    def explained(
        program: lt.Schedule | lt.Tensor | Sequence[lt.Tensor],
        own: HardwareConfig,
        parameters: Mapping[str, int] | None,
    ) -> None:
        # At once: the script may change the schedule later, or end with what lt.build refuses.
        found.append(lt.explain(program, own, parameters=parameters, budget=budget))
        machines.append(own)

    try:
        with on_build(explained):
            made = run_script(path, FUNCTIONS, "schedule", config_name)
    except lt.LatheError:
        if not found or found[-1].maps:
            raise
        made = None
    tensors = made if isinstance(made, list | tuple) else [made]
    if isinstance(made, lt.Schedule) or (tensors and all(isinstance(each, lt.Tensor) for each in tensors)):
        return [lt.explain(made, machine, budget=budget)]
    if not found:
        raise ScriptError(
            f"The script {str(path)!r} must return a schedule or tensors from schedule(cfg), have them in its variable "
            f"'schedule', or call lt.build, not leave {made!r}. A schedule is what lt.create_schedule returns."
        )
    if wanted:
        check_machine_of(path, machine, machines, "schedule")
    return found
