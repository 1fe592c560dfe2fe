"""Launchers of Primus: direct (torchrun), containers, Slurm and ssh."""

__version__ = "0.1.0"
