"""What notebooks show of values: tables and small pictures, as HTML that needs no script and no other file.

Imported, this says to :func:`lathe.configs.html_repr.html_of` how each class is shown.
"""

from lathe.reports.notebooks import machines, networks, programs, results, schedules, sweeps

__all__ = ["machines", "networks", "programs", "results", "schedules", "sweeps"]
