"""What several studies share: their command, sizes, tables and figures."""
