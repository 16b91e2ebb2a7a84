"""The example notebook runs in a kernel from its first cell to its last, and is stored without outputs."""

from pathlib import Path

import nbformat
from jupyter_client.manager import AsyncKernelManager
from nbclient import NotebookClient

TOUR = Path(__file__).parents[3] / "examples" / "tour.ipynb"


def test_every_cell_runs_and_values_show_themselves(tmp_path: Path) -> None:
    notebook = nbformat.read(TOUR, as_version=4)
    kernel = AsyncKernelManager(kernel_name="python3", transport="ipc", ip=str(tmp_path / "kernel"))
    NotebookClient(notebook, km=kernel, timeout=300).execute(cwd=str(tmp_path))
    shown = [_shown(cell) for cell in notebook.cells if cell.cell_type == "code"]
    assert all("text/html" in data for data in shown)
    headings = [data["text/html"].split("</div>")[0].rsplit(">", 1)[-1] for data in shown]
    assert headings == [
        "Machine vta",
        "Tensor D",
        "Bound on vta",
        "Program of 49 instructions for vta",
        "3\N{NO-BREAK SPACE}567 cycles on vta",
        "Schedule of D",
        "On vta: maps",
        headings[7],
        headings[8],
        "Sweep of 12 points: 12 ok",
    ]
    assert headings[7].endswith(" cycles on vta")
    assert headings[8].endswith(" cycles on two rows")


def test_it_is_kept_without_outputs() -> None:
    cells = [cell for cell in nbformat.read(TOUR, as_version=4).cells if cell.cell_type == "code"]
    assert [(cell.outputs, cell.execution_count) for cell in cells] == [([], None)] * len(cells)


def _shown(cell: nbformat.NotebookNode) -> nbformat.NotebookNode:
    """The value of the last line of a cell, which must be its only output."""
    (output,) = cell.outputs
    assert output.output_type == "execute_result"
    return output.data
