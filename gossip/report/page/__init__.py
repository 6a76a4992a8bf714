"""The page of a report: one file with table, pictures and curves to work with.

Its drawing is `page.js`, some 420 lines that need no library: those at hand weigh more than 4 MB a
page, or come from no Python package, and none compares runs, learners and seeds by itself.
"""

from gossip.report.page.build import write_html

__all__ = ["write_html"]
