"""What was judged, for people and programs: a screen, and files of many formats from one page."""

from primus_preflight.reporting.files import write
from primus_preflight.reporting.screen import screen

__all__ = ["screen", "write"]
