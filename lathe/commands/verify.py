"""`lathe verify`: what the static verifier finds in a program or stream."""

from pathlib import Path
from typing import Any

import click

from lathe.archives import load_archive
from lathe.commands.options import FILE, json_option, stream_config_option
from lathe.commands.terminal import print_json
from lathe.isa import Finding, PagedMemory, Program, decode
from lathe.isa import verify as verify_program
from lathe.isa.verifier import verify_stream

FINDINGS = 1


@click.command()
@click.argument("file", type=FILE)
@stream_config_option
@json_option
@click.pass_context
def verify(ctx: click.Context, file: Path, config_name: str | None, as_json: bool) -> None:
    """Find mistakes in a program or stream.

    Nothing is run. Mistakes are accesses out of range, reads of what nothing has written, micro-ops that are never
    loaded, tokens that do not balance, that deadlock or that a counter may not hold, stores into the stream itself,
    and races between units. The exit status is 1 when there are any.
    """
    found, machine = load_archive(file, config_name)
    if isinstance(found, Program):
        findings = verify_program(found)
        count = len(found.instructions)
    else:
        memory = PagedMemory.of(found.page_addrs, found.pages)
        findings = verify_stream(machine, decode(machine, found.insns), memory, found.tokens, insn_addr=found.insn_addr)
        count = len(found.insns)
    if as_json:
        print_json({"instructions": count, "findings": [finding_dict(finding) for finding in findings]})
    else:
        for finding in findings:
            click.echo(str(finding))
        many = f"{len(findings)} finding{'s' * (len(findings) != 1)}" if findings else "nothing wrong"
        click.echo(f"{many} in {count} instructions")
    if findings:
        ctx.exit(FINDINGS)


def finding_dict(finding: Finding) -> dict[str, Any]:
    """A finding as plain values."""
    return {
        "kind": str(finding.kind),
        "code": None if finding.code is None else finding.code.name,
        "instruction": finding.instruction,
        "text": finding.text,
        "unit": finding.unit.name.lower(),
        "field": finding.field,
        "cell": finding.cell,
        "cells": finding.cells,
        "other": finding.other,
        "message": str(finding),
    }
