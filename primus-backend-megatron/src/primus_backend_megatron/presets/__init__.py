"""Presets that only Megatron understands; portable ones are in `primus_core.presets`."""
