"""Weights as torch tensors: read from Hugging Face folders and from checkpoints, joined and taken apart. In ranks."""
