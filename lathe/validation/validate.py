"""All checks of ``build(..., check=True)`` on a compiled program."""

from collections.abc import Sequence

from lathe.frontend import Tensor
from lathe.isa import verify
from lathe.scheduler.codegen.compiled_program import Compiled
from lathe.scheduler.errors import ValidationError
from lathe.validation.end_to_end import validate_runs
from lathe.validation.stream_validator import validate_stream


def validate(compiled: Compiled, outputs: Sequence[Tensor], seed: int = 0) -> None:
    """Raise ValidationError unless a program passes the verifier, the stream validator and the end-to-end check.

    The verifier reports faults, races and deadlocks. Without any, all orders that the tokens allow give the same
    results, so the stream validator follows program order: after each chunk it checks every element that is computed.
    Then the program runs on inputs of three kinds. ``outputs`` are the program's as they were passed to ``build``.
    """
    findings = verify(compiled.program)
    if findings:
        more = f" ({len(findings)} findings in all)" if len(findings) > 1 else ""
        raise ValidationError(f"The verifier rejects the program: {findings[0]}{more}")
    validate_stream(compiled, seed=seed)
    validate_runs(compiled.program, outputs, compiled.constants, seed)
