"""Methods compared on equal terms: python -m gossip.compare --help.

In Python: a `comparison.Comparison` is trained with `result.train(comparison, folder, jobs=2)` and
shown with `result.report(comparison, folder)`. A study with a plan of its own takes the pieces:
`methods.parse` and `methods.config` make a config, `plan.plan` all of them, `metrics` and
`rows.row_of` the numbers of a run, `table.table` the table of such rows.
"""
