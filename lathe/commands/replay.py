"""`lathe replay`: run a raw instruction stream on a raw memory image."""

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import click
import numpy as np
from numpy.typing import NDArray

from lathe import engines
from lathe.commands.comparison import DIFFERENT, agreement_dict, engines_of, prepare, print_agreement
from lathe.commands.options import FILE, config_option, engine_option, json_option, trace_option, wave_option
from lathe.commands.quantize import warn
from lathe.commands.summaries import bytes_table, counters_dict, counters_table, units_table
from lathe.commands.terminal import console, print_json
from lathe.configs import LatheError, load_config
from lathe.configs.atomic import check_writable
from lathe.cosimulation import cosimulate_stream
from lathe.isa.reserved_bits import set_reserved_bits
from lathe.sim import ReplayResult, read_stream
from lathe.sim.stream import AFTER_KEYS, checked_memory, read_stream_arrays, stream_for


class ExpectationError(LatheError):
    """A stream file without the memory and tokens that are expected after the run."""


@dataclass(frozen=True, eq=False)
class Expectation:
    """The pages that a run must change, by address, and the tokens that must remain."""

    pages: Mapping[int, NDArray[np.uint8]]
    tokens: tuple[int, int, int, int]


@click.command()
@click.argument("stream", type=FILE)
@config_option
@engine_option
@click.option("-o", "--output", type=FILE, help="Write final memory, tokens, cycles and counters to this .npz file.")
@click.option("--check", is_flag=True, help="Compare with after_addrs, after_pages and after_tokens of STREAM.")
@trace_option
@wave_option
@json_option
@click.pass_context
def replay(
    ctx: click.Context,
    stream: Path,
    config_name: str,
    engine: str,
    output: Path | None,
    check: bool,
    trace_path: Path | None,
    wave_path: Path | None,
    as_json: bool,
) -> None:
    """Run a raw instruction stream on a raw memory image.

    STREAM is an .npz file with insns (N, 16) uint8, insn_addr (their byte address), page_addrs (P,) and pages (P, 4096)
    uint8 (initial memory; all other bytes are zero), and tokens (4,): load->compute, compute->load, compute->store,
    store->compute. The output of -o has the same format and can be replayed.

    With several engines, memory, tokens, counters, and start and end of each instruction in each unit are compared. The
    exit status is 1 if any differ; all other output is that of the first engine.
    """
    machine = load_config(config_name)
    for path in (output, trace_path, wave_path):
        if path is not None:
            check_writable(path)
    expected = expectation(stream) if check else None
    names = engines_of(engine)
    given = stream_for(machine, stream)  # reports errors before a machine is built, which takes a minute
    for found in set_reserved_bits(machine, given.insns):
        warn(
            f"{found.field} of instruction {found.instruction} must {found.contract}. The machine ignores it; "
            "`lathe verify` lists all such bits. Name the stream's machine with -c."
        )
        break
    prepare(names, machine, wave_path)
    if len(names) == 1:
        ran, traced = None, trace_path is not None
        result = engines.replay(machine, stream, engine=names[0], trace=traced, wave=wave_path)
    else:
        ran = cosimulate_stream(machine, stream, engines=names, wave=wave_path)
        result = ran.first
    same = expected is None or agrees(result, expected)
    if output is not None:
        result.save(output)
    if trace_path is not None and result.trace is not None:
        result.trace.write_chrome_trace(trace_path)
    if as_json:
        verdict = {} if expected is None else {"as_expected": same}
        pages = [f"{address:#x}" for address in result.page_addrs[result.changed].tolist()]
        values = counters_dict(machine, result.counters)
        compared = {} if ran is None else agreement_dict(ran)
        print_json({**compared, **verdict, **values, "tokens": list(result.tokens), "changed_pages": pages})
    else:
        print_result(result)
        if expected is not None:
            click.echo(
                "\nMemory and tokens are as expected." if same else "\nMemory or tokens DIFFER from what is expected."
            )
        if ran is not None:
            print_agreement(ran)
    if not same or not (ran is None or ran.agree):
        ctx.exit(DIFFERENT)


def expectation(path: Path) -> Expectation:
    """The final memory and tokens that a stream file expects.

    Raises :class:`ExpectationError` and StreamError.
    """
    read_stream(path)  # errors of the stream itself are reported first
    found = read_stream_arrays(path, AFTER_KEYS)
    missing = [name for name in AFTER_KEYS if name not in found]
    if missing:
        raise ExpectationError(
            f"The stream file {str(path)!r} must have {', '.join(AFTER_KEYS)} for --check, and lacks {missing[0]}. "
            "Add the array, or leave out --check."
        )
    addresses, pages, tokens = checked_memory(found, AFTER_KEYS, f"stream file {str(path)!r}")
    return Expectation(dict(zip(addresses.tolist(), pages, strict=True)), tokens)


def agrees(result: ReplayResult, expected: Expectation) -> bool:
    """Whether the pages that the run changed, and the remaining tokens, are as expected."""
    changed = dict(zip(result.page_addrs[result.changed].tolist(), result.pages[result.changed], strict=True))
    return (
        set(changed) == set(expected.pages)
        and all(np.array_equal(page, expected.pages[address]) for address, page in changed.items())
        and result.tokens == expected.tokens
    )


def print_result(result: ReplayResult) -> None:
    """Print the result as tables."""
    out = console()
    for each in (counters_table(result.counters), bytes_table(result.counters), units_table(result.counters)):
        out.print(each)
        out.print()
    names = ("load->compute", "compute->load", "compute->store", "store->compute")
    tokens = ", ".join(f"{name} {count}" for name, count in zip(names, result.tokens, strict=True))
    out.print(f"Pages changed: {int(result.changed.sum())}    tokens remaining: {tokens}")
