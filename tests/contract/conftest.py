"""Fixtures of this folder."""

from tests.distributions import install, site

__all__ = ["install", "site"]
