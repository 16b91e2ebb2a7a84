"""Why a rule does not take a chunk: the constraint, and what to do with the chunk instead."""

from lathe.configs.errors import RefusalKind


class RuleMismatch(Exception):  # noqa: N818 - a rule also returns it; it is an answer as much as an error
    """What a rule raises (or returns) when a chunk does not satisfy a constraint; names constraint and values.

    ``kind`` says whose it is: the machine's, unless it is a limit of the rule or of what was given to it.
    """

    def __init__(self, constraint: str, *, kind: RefusalKind = "machine") -> None:
        super().__init__(constraint)
        self.kind: RefusalKind = kind
        self.constraint = constraint


class UopCapacityMismatch(RuleMismatch):
    """A chunk needs more temporaries than there are: it has to be done in parts."""


class PartialGroupMismatch(RuleMismatch):
    """A loop has to be cut after ``first`` iterations, for the two parts to be regular each."""

    def __init__(self, constraint: str, loop: int, first: int) -> None:
        super().__init__(constraint, kind="machine")
        self.loop = loop
        self.first = first
