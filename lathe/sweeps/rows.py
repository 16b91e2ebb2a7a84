"""The result of ``lt.sweep``: a list of rows as dictionaries, displayed as a table in notebooks."""

from typing import Any

from lathe.configs.html_repr import repr_html


class SweepRows(list[dict[str, Any]]):
    """A list of rows; each has a point's columns, status and metrics."""

    _repr_html_ = repr_html
