"""All that ``build(..., check=True)`` asks of a compiled program."""

from collections.abc import Sequence

from lathe.frontend import Tensor
from lathe.isa import verify
from lathe.scheduler.codegen.compiled_program import Compiled
from lathe.scheduler.errors import ValidationError
from lathe.validation.end_to_end import validate_runs
from lathe.validation.stream_validator import validate_stream


def validate(compiled: Compiled, outputs: Sequence[Tensor], seed: int = 0) -> None:
    """Raises ValidationError unless a program is in order, makes its elements, and gives NumPy's outputs.

    First the verifier looks for what a machine would not carry out, or would do by chance: accesses out of range,
    missing tokens, deadlocks. In any order that the tokens allow the stream does the same then, and is followed in its
    own order: chunk by chunk, each element that a stage makes must be there. At last it runs on inputs of three kinds.
    ``outputs`` are those of the program as they were given to ``build``.
    """
    findings = verify(compiled.program)
    if findings:
        more = f" ({len(findings)} findings in all)" if len(findings) > 1 else ""
        raise ValidationError(f"Program must be one that the verifier finds nothing in. {findings[0]}{more}")
    validate_stream(compiled, seed=seed)
    validate_runs(compiled.program, outputs, compiled.constants, seed)
