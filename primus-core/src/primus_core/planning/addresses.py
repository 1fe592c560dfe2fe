"""Paths that are none of a file system."""

from __future__ import annotations


def is_address(path: str) -> bool:
    """Object storage (``msc://``), which a library reads through another one."""
    return "://" in path
