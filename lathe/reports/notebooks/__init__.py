"""HTML representations of values for notebooks: tables and small SVG figures, without scripts or other files.

Importing this package registers them with :func:`lathe.configs.html_repr.html_of`.
"""

from lathe.reports.notebooks import machines, networks, programs, results, schedules, sweeps

__all__ = ["machines", "networks", "programs", "results", "schedules", "sweeps"]
