"""Static verifier of programs and streams: finds faults, races and undefined reads without running them."""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from lathe.configs import HardwareConfig
from lathe.configs.errors import shown
from lathe.isa.columnar_stream import Columns
from lathe.isa.diagnostics import Finding, FindingKind, VerificationError
from lathe.isa.dram_map import ProgramMap, RawMap
from lathe.isa.encoding import encode_columns
from lathe.isa.errors import ProgramError
from lathe.isa.fault import FaultCode
from lathe.isa.instruction_checks import check_fields, check_instructions, check_reserved_bits
from lathe.isa.instructions import Instruction
from lathe.isa.launch_checks import unreachable_message
from lathe.isa.program import Program
from lathe.isa.race_checks import check_accesses
from lathe.isa.sparse_memory import PagedMemory
from lathe.isa.table import MOST_TOKENS, QUEUE_OF, Opcode, TokenQueue, Unit
from lathe.isa.token_overflow import overflows
from lathe.isa.undef_propagation import loads_used_undefined
from lathe.isa.verification_context import VerificationContext


def verify(program: Program) -> list[Finding]:
    """The mistakes in a program, by instruction; an empty list when there are none.

    Besides what :func:`verify_stream` finds: reads outside every segment, stores outside outputs and temporaries, reads
    of outputs and temporaries that nothing has stored and whose bytes reach values of outputs, and launches that do not
    restore their initial token counts. Raises :class:`ProgramError` unless ``program`` is a Program.
    """
    if not isinstance(program, Program):
        raise ProgramError(f"The program to verify must be a Program, not {shown(program)}. build returns one.")
    subject = VerificationContext(
        program.config, program.instructions, program.columns, ProgramMap(program), program.tokens_in, program.insn_addr
    )
    check_fields(subject)
    findings = _verify(subject, tokens_after=program.tokens_in)
    if not findings or any(each.kind != FindingKind.UNINITIALISED_DRAM for each in findings):
        return findings
    used = loads_used_undefined(program, subject.order.sequence)
    return [each for each in findings if each.instruction in used]


def check(program: Program) -> None:
    """Raise :class:`VerificationError` with all findings if there are any."""
    findings = verify(program)
    if findings:
        raise VerificationError("The program", findings)


def verify_stream(
    config: HardwareConfig,
    instructions: Sequence[Instruction],
    memory: PagedMemory,
    tokens: Sequence[int] = (0, 0, 0, 0),
    tokens_after: Sequence[int] | None = None,
    insn_addr: int | None = None,
    encoded: NDArray[np.uint8] | None = None,
) -> list[Finding]:
    """The mistakes in a raw stream that runs on a memory image, of which only the content is known.

    ``tokens`` are the counts of the four queues before, ``tokens_after`` what they must be after (None: anything, since
    launches may leave tokens for each other). ``insn_addr`` is the byte address of the stream, whose bytes replace
    those of ``memory`` there; no STORE may write to them (None: the stream overlaps nothing). ``encoded`` is the stream
    before decoding, (N, 16) uint8, in which reserved bits that are set are mistakes, too (None: there are none).

    Finds scratchpad indices out of range, reads of uninitialised scratchpad, micro-ops that are never loaded,
    deadlocks, tokens beyond the counters' range, races between units on scratchpads and on DRAM, immediate shift
    amounts beyond 31, stores into the stream, instructions that no unit executes, and reserved bits that are set.
    Raises :class:`ProgramError` for token counts that a machine cannot hold, and for a stream beyond its address space.
    """
    columns = Columns.of(instructions)
    if insn_addr is not None and (message := unreachable_message(config, insn_addr, len(instructions))) is not None:
        raise ProgramError(message)
    subject = VerificationContext(config, instructions, columns, RawMap(memory), _four("tokens", tokens), insn_addr)
    check_fields(subject)
    if insn_addr is not None and not subject.findings:
        with_stream = PagedMemory.of(list(memory.pages), list(memory.pages.values()))
        stream = encode_columns(config, columns) if encoded is None else encoded
        with_stream.write(insn_addr, stream.reshape(-1))
        subject.dram = RawMap(with_stream)
    return _verify(subject, None if tokens_after is None else _four("tokens_after", tokens_after), encoded)


def _verify(
    subject: VerificationContext,
    tokens_after: tuple[int, int, int, int] | None,
    encoded: NDArray[np.uint8] | None = None,
) -> list[Finding]:
    if subject.findings:  # these instructions cannot be encoded, so there is nothing else to check
        return sorted(subject.findings, key=lambda finding: finding.instruction)
    if encoded is not None:
        check_reserved_bits(subject, encoded)
    check_instructions(subject)
    _check_tokens(subject, tokens_after)
    check_accesses(subject)
    return sorted(subject.findings, key=lambda finding: finding.instruction)


def _four(name: str, tokens: Sequence[int]) -> tuple[int, int, int, int]:
    array = np.asarray(tokens)
    counts = array.tolist() if array.dtype.kind in "iu" and array.shape == (len(TokenQueue),) else []
    if not counts or min(counts) < 0 or max(counts) > MOST_TOKENS:
        raise ProgramError(
            f"{name} of a stream must be four counts from 0 to {MOST_TOKENS}, not {shown(tokens)}. "
            f"Their order is {', '.join(queue.arrow for queue in TokenQueue)}."
        )
    return counts[0], counts[1], counts[2], counts[3]


def _check_tokens(subject: VerificationContext, tokens_after: tuple[int, int, int, int] | None) -> None:
    _check_overflows(subject)
    order = subject.order
    for index, queues in order.blocked.values():
        for queue in queues:
            field = _token_field(subject, index, queue, "pop")
            contract = f"find a token in {queue.arrow}, but waits forever"
            subject.report(FindingKind.DEADLOCK, index, field, queue.arrow, contract, code=FaultCode.DEADLOCK)
    if order.unfetched is not None:
        name, depth = Unit(int(order.unit[order.unfetched])).name.lower(), subject.config.timing.command_queue_depth
        contract = f"find space in the {name} queue of {depth} commands, but fetch waits forever"
        cell = f"{name} queue"
        subject.report(FindingKind.DEADLOCK, order.unfetched, "opcode", cell, contract, code=FaultCode.DEADLOCK)
    if order.blocked:
        return
    if not (subject.columns.opcode == Opcode.FINISH).any():
        cell = "the end of the stream"
        if subject.instructions:
            last = len(subject.instructions) - 1
            contract = "be followed by a FINISH, without which the launch does not end"
            subject.report(FindingKind.DEADLOCK, last, "opcode", cell, contract, code=FaultCode.NO_FINISH)
        else:
            contract = "be a FINISH, without which the launch does not end"
            subject.report_missing(FindingKind.DEADLOCK, "the end", contract, cell, FaultCode.NO_FINISH)
        return
    if tokens_after is None:
        return
    for queue in TokenQueue:
        surplus = order.tokens_after[queue] - tokens_after[queue]
        if surplus:
            _report_unbalanced(subject, queue, surplus)


def _check_overflows(subject: VerificationContext) -> None:
    depth = subject.config.timing.command_queue_depth
    for queue, index in overflows(subject.columns, subject.order, subject.tokens, depth).items():
        subject.report(
            FindingKind.TOKEN_OVERFLOW,
            index,
            _token_field(subject, index, queue, "push"),
            queue.arrow,
            f"leave at most {MOST_TOKENS} tokens in {queue.arrow}, at any speed of the units",
            code=FaultCode.TOKEN_OVERFLOW,
        )


def _token_field(subject: VerificationContext, index: int, queue: TokenQueue, verb: str) -> str:
    """The field with which an instruction pops from a queue or pushes to it."""
    names = (f"{verb}_prev", f"{verb}_next")
    return next(name for name in names if QUEUE_OF.get((Unit(int(subject.columns.unit[index])), name)) == queue)


def _report_unbalanced(subject: VerificationContext, queue: TokenQueue, surplus: int) -> None:
    """Report the last instruction that pushes to a queue with surplus tokens, or pops from one that lacks tokens."""
    verb = "push" if surplus > 0 else "pop"
    columns = subject.columns
    users = [
        (int(index), name)
        for (unit, name), named in QUEUE_OF.items()
        if named == queue and name.startswith(verb)
        for index in np.flatnonzero((columns.unit == unit) & (columns[name] > 0))
    ]
    if not users:  # The stream never uses the queue, so that it cannot produce the requested count.
        users = [(len(subject.instructions) - 1, f"{verb}_prev")]
    index, field = max(users)
    count = abs(surplus)
    tokens = "1 token" if count == 1 else f"{count} tokens"
    state = f"leaves {tokens} too many" if surplus > 0 else f"leaves {tokens} too few"
    contract = f"be balanced by the unit at the other end of {queue.arrow}: the launch {state}"
    subject.report(FindingKind.UNBALANCED, index, field, queue.arrow, contract, cells=count)
