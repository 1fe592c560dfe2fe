"""Checks of hosts, accelerators and networks before a Primus run."""

__version__ = "0.1.0"
