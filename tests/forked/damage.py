"""Damage to checkpoints that no size tells."""

from __future__ import annotations

from pathlib import Path


def change_a_byte(checkpoint: Path) -> Path:
    """In the middle of its largest file; returns which."""
    largest = max((path for path in checkpoint.rglob("*") if path.is_file()), key=lambda path: path.stat().st_size)
    content = bytearray(largest.read_bytes())
    content[len(content) // 2] ^= 1
    largest.write_bytes(content)
    return largest
