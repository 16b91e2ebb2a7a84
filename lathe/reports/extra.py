"""Import of plotly, the optional package of the extra `reports`, when a page is written."""

from importlib import import_module

from lathe.reports.errors import ReportError


def plotting_library() -> str:
    """The source of plotly.js from package plotly. Raises ReportError with the command that installs it."""
    try:
        return str(import_module("plotly.offline").get_plotlyjs())
    except ImportError as error:
        raise ReportError(
            f"Cannot write pages: package 'plotly' cannot be imported: {error}. Install it with: pip install "
            "'lathe-npu[reports]'."
        ) from None
