"""From an experiment file to an `Experiment`: extends, presets, variables and overrides, each value with its origin."""

from primus_core.resolve.experiment import resolve

__all__ = ["resolve"]
