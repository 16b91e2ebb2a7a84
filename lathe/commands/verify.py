"""`lathe verify`: run the static verifier on a program, a stream, or the streams of a network."""

from pathlib import Path
from typing import Any

import click

from lathe.archives import load_archive
from lathe.commands.models import load_network
from lathe.commands.options import FILE, json_option, stream_config_option
from lathe.commands.terminal import print_json
from lathe.isa import Finding, PagedMemory, Program, decode
from lathe.isa import verify as verify_program
from lathe.isa.verifier import verify_stream
from lathe.networks.files import holds_network
from lathe.networks.program import NetworkProgram

FINDINGS = 1


@click.command()
@click.argument("file", type=FILE)
@stream_config_option
@json_option
@click.pass_context
def verify(ctx: click.Context, file: Path, config_name: str | None, as_json: bool) -> None:
    """Find errors in a program or stream, or in each stream of a network, without running it.

    The verifier reports accesses out of range, reads of uninitialised memory, micro-ops that are never loaded, tokens
    that do not balance, deadlock or may overflow a counter, stores into the stream itself, races between units, and, in
    a raw stream, bits that are in no field of the machine's encoding: the stream is for another machine, to be named
    with `-c`. The exit status is 1 if there are any.
    """
    if holds_network(file):
        if not verify_network(load_network(file, config_name), as_json):
            ctx.exit(FINDINGS)
        return
    found, machine = load_archive(file, config_name)
    if isinstance(found, Program):
        findings = verify_program(found)
        count = len(found.instructions)
    else:
        memory = PagedMemory.of(found.page_addrs, found.pages)
        instructions = decode(machine, found.insns)
        findings = verify_stream(
            machine, instructions, memory, found.tokens, insn_addr=found.insn_addr, encoded=found.insns
        )
        count = len(found.insns)
    if as_json:
        print_json({"instructions": count, "findings": [finding_dict(finding) for finding in findings]})
    else:
        for finding in findings:
            click.echo(str(finding))
        click.echo(f"{findings_text(len(findings))} in {count} instructions")
    if findings:
        ctx.exit(FINDINGS)


def findings_text(findings: int) -> str:
    """The number of findings as text."""
    return f"{findings} finding{'s' * (findings != 1)}" if findings else "no findings"


def verify_network(program: NetworkProgram, as_json: bool) -> bool:
    """Print the findings of each stream; True if there are none."""
    found = [(number, finding) for number, part in enumerate(program.parts, 1) for finding in verify_program(part)]
    count = sum(len(part.instructions) for part in program.parts)
    if as_json:
        findings = [{"stream": number, **finding_dict(finding)} for number, finding in found]
        print_json({"instructions": count, "streams": len(program.parts), "findings": findings})
    else:
        for number, finding in found:
            click.echo(f"stream {number}: {finding}")
        streams = f"{len(program.parts)} stream{'s' * (len(program.parts) != 1)}"
        click.echo(f"{findings_text(len(found))} in {count} instructions of {streams}")
    return not found


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
