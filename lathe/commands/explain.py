"""`lathe explain`: how the chunks of a script's schedule, or of the digits network, meet the rules of a machine."""

import sys
from collections.abc import Sequence
from contextlib import nullcontext, redirect_stdout
from pathlib import Path

import click

import lathe as lt
from lathe.commands.options import FILE, config_option, json_option
from lathe.commands.terminal import print_json
from lathe.configs import load_config
from lathe.networks.digits.job import DEFAULT_BATCH
from lathe.networks.digits.network import digits_network
from lathe.scripts import ScriptError, run_script

REFUSED = 1


@click.command()
@click.argument("script", required=False, type=FILE)
@config_option
@click.option("--batch", default=DEFAULT_BATCH, show_default=True, help="Images of one launch (digits network).")
@json_option
@click.pass_context
def explain(ctx: click.Context, script: Path | None, config_name: str, batch: int, as_json: bool) -> None:
    """Say which rule takes each chunk, or why none does.

    Chunks alike but for offsets are one line: their count, their pads, and the rule that took them or the constraint
    that failed. The exit status is 1 when the schedule does not map.

    SCRIPT is a Python file. If it defines schedule(cfg), that is called with the machine of -c and returns a schedule
    or tensors; otherwise the script runs as Python would run it, with the machine's name as its first argument, and
    leaves the schedule in a variable "schedule". Without SCRIPT it is the digits network.
    """
    machine = load_config(config_name)
    # With --json, standard output is for the JSON alone.
    with redirect_stdout(sys.stderr) if as_json else nullcontext():
        given = digits_network(batch).logits if script is None else scheduled(script, config_name)
    found = lt.explain(given, machine)
    if as_json:
        print_json(found.to_dict())
    else:
        click.echo(str(found), nl=False)
    if not found.maps:
        ctx.exit(REFUSED)


def scheduled(path: Path, config_name: str) -> lt.Schedule | lt.Tensor | Sequence[lt.Tensor]:
    """What the script makes."""
    found = run_script(path, "schedule", "schedule", config_name)
    tensors = found if isinstance(found, list | tuple) else [found]
    if isinstance(found, lt.Schedule) or (tensors and all(isinstance(each, lt.Tensor) for each in tensors)):
        return found  # type: ignore[no-any-return]
    raise ScriptError(
        f"The script {str(path)!r} must return a schedule or tensors from schedule(cfg), or have them in its variable "
        f"'schedule', not {found!r}. A schedule is what lt.create_schedule returns."
    )
