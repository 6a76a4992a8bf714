"""What runs leave behind, made visible: tables, figures, CSV, one HTML page.

In a notebook: `runs = load_runs([Path("runs/A")])`, then `study_figure(runs)` from
`gossip.report.figures`, or `runs[0].column("alpha_e")`.
"""

from gossip.report.command import main, report
from gossip.report.runs import Run, heading, labels, load_runs
from gossip.report.table import summary_table

__all__ = ["Run", "heading", "labels", "load_runs", "main", "report", "summary_table"]
