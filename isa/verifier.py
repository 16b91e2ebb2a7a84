"""The static verifier: finds, without running a program, what a machine would not carry out or would do by chance."""

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
from lathe.isa.instruction_checks import check_fields, check_instructions, check_unused_bits
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
    """What is wrong with a program, by instruction; an empty list when nothing is.

    Besides what :func:`verify_stream` finds: reads outside every segment, stores outside outputs and temporaries,
    reads of outputs and temporaries that nothing has stored, and whose bytes get into values of outputs, and launches
    that do not leave the tokens they began with.
    Raises :class:`ProgramError` for what is no program.
    """
    if not isinstance(program, Program):
        raise ProgramError(f"The program to verify must be a Program, not {shown(program)}. It is what build returns.")
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
    """Raise :class:`VerificationError` with all findings when there are any."""
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
    """What is wrong with a raw stream that runs on a memory image, of which nothing but the content is known.

    ``tokens`` are the counts of the four queues before, ``tokens_after`` what they must be after (None: anything, for
    launches may leave tokens to each other). ``insn_addr`` is the byte address of the stream: its bytes stand there in
    ``memory``, whatever the image says, and no STORE may touch them (None: it lies where nothing else does).
    ``encoded`` is the stream as it was before it was decoded, (N, 16) uint8: bits that no field of the machine has are
    mistakes, too (None: there are no such bits).

    Finds scratchpad indices out of range, reads of uninitialised scratchpad, micro-ops that are never loaded,
    deadlocks, tokens that a counter may not hold, races between units on scratchpads and on DRAM, immediate shift
    amounts beyond 31, stores into the stream, instructions that no unit carries out, and bits that no field has.
    Raises :class:`ProgramError` for counts of tokens that a machine does not hold, and for a stream beyond its
    addresses.
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
    if subject.findings:  # no machine could be given these instructions, so there is nothing to follow
        return sorted(subject.findings, key=lambda finding: finding.instruction)
    if encoded is not None:
        check_unused_bits(subject, encoded)
    check_instructions(subject)
    _check_tokens(subject, tokens_after)
    check_accesses(subject)
    return sorted(subject.findings, key=lambda finding: finding.instruction)


def _four(name: str, tokens: Sequence[int]) -> tuple[int, int, int, int]:
    given = np.asarray(tokens)
    counts = given.tolist() if given.dtype.kind in "iu" and given.shape == (len(TokenQueue),) else []
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
            contract = f"find a token of {queue.arrow}, and waits forever"
            subject.report(FindingKind.DEADLOCK, index, field, queue.arrow, contract, code=FaultCode.DEADLOCK)
    if order.unfetched is not None:
        name, depth = Unit(int(order.unit[order.unfetched])).name.lower(), subject.config.timing.command_queue_depth
        contract = f"find room in the {name} queue, which holds {depth}, and fetch waits forever"
        cell = f"{name} queue"
        subject.report(FindingKind.DEADLOCK, order.unfetched, "opcode", cell, contract, code=FaultCode.DEADLOCK)
    if order.blocked:
        return
    if not (subject.columns.opcode == Opcode.FINISH).any():
        cell = "the end of the stream"
        if subject.instructions:
            last = len(subject.instructions) - 1
            contract = "be followed by a FINISH, for the launch does not end without one"
            subject.report(FindingKind.DEADLOCK, last, "opcode", cell, contract, code=FaultCode.NO_FINISH)
        else:
            contract = "be a FINISH at least, for the launch does not end without one"
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
            f"leave at most {MOST_TOKENS} tokens in {queue.arrow}, however fast the units are",
            code=FaultCode.TOKEN_OVERFLOW,
        )


def _token_field(subject: VerificationContext, index: int, queue: TokenQueue, verb: str) -> str:
    """The field with which an instruction pops from a queue or pushes to it."""
    names = (f"{verb}_prev", f"{verb}_next")
    return next(name for name in names if QUEUE_OF.get((Unit(int(subject.columns.unit[index])), name)) == queue)


def _report_unbalanced(subject: VerificationContext, queue: TokenQueue, surplus: int) -> None:
    """Name the last instruction that pushes to (or, when tokens are missing, pops from) a queue."""
    verb = "push" if surplus > 0 else "pop"
    columns = subject.columns
    users = [
        (int(index), name)
        for (unit, name), named in QUEUE_OF.items()
        if named == queue and name.startswith(verb)
        for index in np.flatnonzero((columns.unit == unit) & (columns[name] > 0))
    ]
    if not users:  # The stream never touches the queue: the caller asked for counts that it cannot give.
        users = [(len(subject.instructions) - 1, f"{verb}_prev")]
    index, field = max(users)
    count = abs(surplus)
    tokens = "1 token" if count == 1 else f"{count} tokens"
    state = f"leaves {tokens} too many" if surplus > 0 else f"leaves {tokens} too few"
    contract = f"be balanced by the other side of {queue.arrow}, for the launch {state}"
    subject.report(FindingKind.UNBALANCED, index, field, queue.arrow, contract, cells=count)
