"""Launchers of Primus: direct (torchrun)."""

__version__ = "0.1.0"
