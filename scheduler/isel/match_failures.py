"""Match failures of emission rules: the violated constraint, and whether splitting the chunk would satisfy it."""

from lathe.configs.errors import RefusalKind


class RuleMismatch(Exception):  # noqa: N818 - a rule also returns it; it is an answer as much as an error
    """Raised or returned by a rule for a chunk that violates ``constraint``, a text that names the values.

    ``kind``: "machine" if the machine cannot do it, "limit" if the rule does not support it.
    """

    def __init__(self, constraint: str, *, kind: RefusalKind = "machine") -> None:
        super().__init__(constraint)
        self.kind: RefusalKind = kind
        self.constraint = constraint


class TemporariesMismatch(RuleMismatch):
    """A chunk needs more temporaries than are free: it must be split in halves."""


class PartialGroupMismatch(RuleMismatch):
    """A loop crosses the boundary of a vector group irregularly: it must be split after ``first`` iterations."""

    def __init__(self, constraint: str, loop: int, first: int) -> None:
        super().__init__(constraint, kind="machine")
        self.loop = loop
        self.first = first
