"""What ``lt.sweep`` returns: rows as dictionaries, in a list that a notebook shows as a table."""

from typing import Any

from lathe.configs.html_repr import repr_html


class SweepRows(list[dict[str, Any]]):
    """A list of rows; a point's columns, status and numbers each."""

    _repr_html_ = repr_html
