"""Presets of models by the names that users of TorchTitan know; the architectures are those of primus-core."""
