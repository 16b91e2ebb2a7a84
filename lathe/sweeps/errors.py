"""The errors of sweeps."""

from lathe.configs.errors import LocatedError


class SweepError(LocatedError):
    """A sweep that cannot be read or run."""

    @property
    def key(self) -> str | None:
        """The key that is at fault, if one is."""
        return self.fault.key if self.fault is not None else None
