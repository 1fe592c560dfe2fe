"""Measurements beside those of an earlier preflight."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from primus_preflight.judging.limits import Limits
from primus_preflight.judging.middle import median
from primus_preflight.judging.names import Names, what_is_slow
from primus_preflight.judging.peers import Figure, compared, figures_of, judged
from primus_preflight.judging.report import Fault
from primus_preflight.judging.specification import told
from primus_preflight.model import Gathered, Measurement


def below_baseline(
    measurements: Sequence[Measurement], baseline: Gathered | None, names: Names, limits: Limits
) -> Iterator[Fault]:
    """What was faster in an earlier preflight: on the same hosts, or where they were not there, on others."""
    if baseline is None:
        return
    earlier = _Earlier(baseline)
    for one in figures_of(measurements):
        test = one.measurement
        reference = earlier.figure(test, tuple(map(names.host, test.nodes)))
        level = "pass" if reference is None else judged(one, reference, limits, earlier.scatter(test))
        if reference is None or level == "pass":
            continue
        where = "" if len(test.nodes) == 1 else f" of {names.some(test.nodes)}"
        evidence = (f"{told(one)}{where}: {compared(one, reference, 'the baseline')}",)
        remedy = what_is_slow(test.test)[1]
        alone = len(test.nodes) == 1
        yield Fault(
            kind="baseline",
            level=level,
            what="is slower than in the baseline" if alone else "groups of nodes are slower than in the baseline",
            nodes=test.nodes if alone else (),
            evidence=evidence,
            remedy=remedy,
        )


class _Earlier:
    """Figures of an earlier preflight, by what can be compared."""

    def __init__(self, gathered: Gathered) -> None:
        names = Names.of(gathered)
        self._own: dict[tuple[object, ...], float] = {}
        self._alike: dict[tuple[object, ...], list[Figure]] = {}
        for one in figures_of(gathered.all_measurements):
            test = one.measurement
            if test.unit != "s":
                self._own[self._key(test), tuple(map(names.host, test.nodes))] = one.value
                self._alike.setdefault(self._key(test), []).append(one)

    def figure(self, one: Measurement, hosts: tuple[str, ...]) -> float | None:
        alike = self._alike.get(self._key(one))
        others = median(figure.value for figure in alike) if alike else None
        return self._own.get((self._key(one), hosts), others)

    def scatter(self, one: Measurement) -> float:
        return median(figure.scatter for figure in self._alike[self._key(one)])

    @staticmethod
    def _key(one: Measurement) -> tuple[object, ...]:
        return one.test, one.size_bytes, one.dtype, one.ranks, one.device, len(one.nodes)
