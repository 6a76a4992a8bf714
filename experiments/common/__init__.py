"""Modules that every study uses: command, scale, tables, figures, pages and claims."""
