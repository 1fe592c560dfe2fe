"""What each test has given, for those who want to see it all at once."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from primus_preflight.judging.middle import median
from primus_preflight.judging.peers import Figure, Peers, figures_of
from primus_preflight.judging.report import Comparison
from primus_preflight.judging.specification import Hardware
from primus_preflight.model import Measurement


def comparisons(measurements: Sequence[Measurement], hardware: Hardware) -> Iterator[Comparison]:
    """One row for each test, size and number of nodes."""
    rows: dict[tuple[str, str, int, int], list[Figure]] = {}
    for one in figures_of(measurement for measurement in measurements if measurement.unit != "s"):
        test = one.measurement
        rows.setdefault((test.test, test.dtype, len(test.nodes), test.size_bytes), []).append(one)
    for _, figures in sorted(rows.items()):
        yield _comparison(figures, hardware)


def _comparison(figures: Sequence[Figure], hardware: Hardware) -> Comparison:
    least = min(figures, key=lambda one: (one.value, one.measurement.nodes))
    one = least.measurement
    return Comparison(
        test=one.test,
        size_bytes=one.size_bytes,
        dtype=one.dtype,
        unit=one.unit,
        members=len(one.nodes),
        measured=len(figures),
        best=Peers.of(figures).best,
        median=median(figure.value for figure in figures),
        worst=least.value,
        worst_nodes=one.nodes,
        specified=hardware.specified(one),
    )
