"""Several preflights as one: of other nodes, or of the same ones again."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence

from attrs import evolve

from primus_preflight.model import Gathered, Measurement


def merged(parts: Sequence[Gathered]) -> Gathered:
    """One record, the same in whatever order its parts come; nodes get new ranks where there are several parts.

    A host counts as the part has it that was made last, and so do measurements with it.
    """
    if len(parts) == 1:
        return parts[0]
    ordered = sorted(parts, key=lambda one: (max((node.ended for node in one.nodes), default=0.0), one.run_id))
    latest = {host: number for number, part in enumerate(ordered) for host in _hosts(part).values()}
    ranks = {host: rank for rank, host in enumerate(sorted(latest))}
    kept = [_renumbered(part, number, latest, ranks) for number, part in enumerate(ordered)]
    return evolve(
        ordered[-1],
        run_id=" + ".join(dict.fromkeys(part.run_id for part in ordered if part.run_id)),
        expected_nodes=len(ranks),
        hosts=tuple(sorted(ranks)),
        groups=tuple(dict.fromkeys(group for part in ordered for group in part.groups)),
        tests=tuple(dict.fromkeys(test for part in ordered for test in part.tests)),
        nodes=tuple(sorted((node for part in kept for node in part.nodes), key=lambda node: node.node)),
        measurements=tuple(one for part in kept for one in part.measurements),
        said=tuple(dict.fromkeys(text for part in ordered for text in part.said)),
        versions={name: version for part in ordered for name, version in sorted(part.versions.items())},
    )


def _hosts(part: Gathered) -> Mapping[int, str]:
    """Names by rank; one that nobody knows is named after its run."""
    own = {node.node: node.host for node in part.nodes}
    told = dict(enumerate(part.hosts))
    unknown = {rank: f"node {rank} of {part.run_id}" for rank in range(part.expected_nodes)}
    return {**unknown, **own, **told}


def _renumbered(part: Gathered, number: int, latest: Mapping[str, int], ranks: Mapping[str, int]) -> Gathered:
    """What of a part counts."""
    new = {rank: ranks[host] for rank, host in _hosts(part).items() if latest[host] == number}
    nodes = (
        evolve(node, node=new[node.node], measurements=tuple(_moved(node.measurements, new)))
        for node in part.nodes
        if node.node in new
    )
    return evolve(part, nodes=tuple(nodes), measurements=tuple(_moved(part.measurements, new)))


def _moved(measurements: Iterable[Measurement], new: Mapping[int, int]) -> Iterator[Measurement]:
    for one in measurements:
        if all(node in new for node in one.nodes):
            yield evolve(one, nodes=tuple(new[node] for node in one.nodes))
