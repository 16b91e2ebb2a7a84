"""The error of reports."""

from lathe.configs.errors import LatheError


class ReportError(LatheError):
    """Input that no page can be made from, or a missing package that pages require."""
