"""Durations and sizes in words."""

from __future__ import annotations

import pytest

from primus_core.quantities import duration, memory_size, text_size


@pytest.mark.parametrize(
    ("seconds", "text"),
    [(0.2, "1 s"), (59.4, "59 s"), (250, "4 min 10 s"), (7500, "2 h 05 min"), (273600, "3 d 04 h")],
)
def test_durations_have_two_units_at_most(seconds: float, text: str) -> None:
    """Seconds, minutes, hours and days, rounded to what matters."""
    assert duration(seconds) == text


@pytest.mark.parametrize(
    ("count", "binary", "decimal"),
    [
        (0, "0 bytes", "0 bytes"),
        (1, "1 byte", "1 byte"),
        (999, "999 bytes", "999 bytes"),
        (1000, "1000 bytes", "1.0 kB"),
        (256 * 1024**2, "256.0 MiB", "268.4 MB"),
        (999_960, "976.5 KiB", "1.0 MB"),
        (3 * 1024**3, "3.0 GiB", "3.2 GB"),
        (5 * 1024**5, "5120.0 TiB", "5629.5 TB"),
    ],
)
def test_sizes_are_in_the_unit_that_keeps_them_short(count: int, binary: str, decimal: str) -> None:
    """Memory and disks are counted in binary units, text in decimal ones; a figure never rounds up to a step."""
    assert (memory_size(count), text_size(count)) == (binary, decimal)
