"""Checkpoints as files: the steps of a folder, and what each holds, without any training library."""
