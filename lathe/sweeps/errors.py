"""The errors of sweeps."""

from pathlib import Path

from lathe.configs import LatheError


class SweepError(LatheError):
    """A sweep file that cannot be read; `file`, `line` (counted from 1) and `key` say where, if anywhere."""

    def __init__(
        self, message: str, *, file: Path | None = None, line: int | None = None, key: str | None = None
    ) -> None:
        super().__init__(message)
        self.file = file
        self.line = line
        self.key = key
