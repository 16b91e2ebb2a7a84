"""The error of reports."""

from lathe.configs.errors import LatheError


class ReportError(LatheError):
    """What no page can be made of, or a package that pages need and that is not there."""
