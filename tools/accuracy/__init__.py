"""``python -m tools.accuracy``: compare projections with what the libraries do, and write ``docs/accuracy.md``."""
