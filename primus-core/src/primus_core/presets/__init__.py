"""Presets that every back end reads: data files only."""
