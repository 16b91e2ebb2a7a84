"""The package of the extra `reports`, asked for when a page is written: nothing else of Lathe needs it."""

from importlib import import_module

from lathe.reports.errors import ReportError


def plotting_library() -> str:
    """The source of plotly.js, as the package plotly has it. Raises ReportError that says what to install."""
    try:
        return str(import_module("plotly.offline").get_plotlyjs())
    except ImportError as error:
        raise ReportError(
            f"package 'plotly' must be there to write pages, and cannot be imported: {error}. Install it with: pip "
            "install 'lathe-npu[reports]'."
        ) from None
