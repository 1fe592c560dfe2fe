"""Primus: one experiment YAML becomes a training run, explained before it starts and named when it fails."""

__version__ = "0.1.0"
