"""Clusters that are made up: what their nodes would have seen and measured."""

from __future__ import annotations

import random
from collections.abc import Collection, Iterator, Mapping, Sequence

from primus_preflight.model import Gathered, Measurement, Node, Probe
from primus_preflight.performance.schedule import sampled_rounds, transfer_rounds

SIZES = (1 << 20, 1 << 24, 1 << 28)
REPETITIONS = 5
_PEAK = {1 << 20: 11.0, 1 << 24: 38.0, 1 << 28: 46.0}
"""Bandwidth of a transfer, GB/s."""

Slow = Mapping[int, float]
"""Parts of their speed at which some nodes run."""


def cluster(
    nodes: int,
    *,
    devices: int = 8,
    computes: Slow | None = None,
    sends: Slow | None = None,
    links: Mapping[tuple[int, int], float] | None = None,
    missing: Collection[int] = (),
    noise: float = 0.02,
    seed: int = 1,
) -> Gathered:
    """A cluster of MI300X.

    Args:
        computes: nodes that compute slowly.
        sends: nodes whose network is slow.
        links: senders and receivers between which alone it is slow.
        noise: standard deviation of each repetition, as a part.
    """
    dice = random.Random(seed)
    here = [node for node in range(nodes) if node not in missing]
    return Gathered(
        run_id="20261202-101500-simulated",
        expected_nodes=nodes,
        hosts=tuple(map(host, range(nodes))),
        groups=("host", "gpu", "network"),
        tests=("gemm", "inter-p2p", "inter-allreduce"),
        nodes=tuple(_node(node, devices) for node in here),
        measurements=(
            *_gemms(here, devices, computes or {}, noise, dice),
            *_transfers(here, sends or {}, links or {}, noise, dice),
            *_groups(here, sends or {}, noise, dice),
        ),
        versions={"primus-core": "0.1.0", "primus-preflight": "0.1.0"},
    )


def host(node: int) -> str:
    return f"gpu-r{node // 16:03d}-n{node % 16:02d}"


def _node(node: int, devices: int) -> Node:
    address = f"10.1.{node // 250}.{node % 250}"
    seen = {"kernel": "6.8.0-45-generic", "cpu_model": "AMD EPYC 9654 96-Core Processor", "sockets": 2, "cpus": 384}
    looks = [
        Probe(name="system", group="host", status="ok", seconds=0.004, facts={**seen, "memory_bytes": 2434 << 30}),
        Probe(name="limits", group="host", status="ok", seconds=0.001, facts={"open_files": 1048576}),
        Probe(name="interfaces", group="network", status="ok", facts={"addresses": [address]}),
        Probe(name="accelerators", group="gpu", status="ok", facts={"models": ["MI300X"], "count": devices}),
    ]
    looks += [
        Probe(name="device", group="gpu", status="ok", device=device, facts={"model": "MI300X", "ecc": True})
        for device in range(devices)
    ]
    return Node(
        node=node,
        host=host(node),
        addresses=(address,),
        accelerator="rocm",
        devices=devices,
        started=1_796_206_000.0,
        ended=1_796_206_090.0 + node % 7,
        probes=tuple(looks),
        complete=True,
    )


def _gemms(here: Sequence[int], devices: int, slow: Slow, noise: float, dice: random.Random) -> Iterator[Measurement]:
    for node in here:
        for device in range(devices):
            values = _drawn(720.0 * slow.get(node, 1.0), noise, dice)
            yield Measurement(
                test="gemm",
                nodes=(node,),
                device=device,
                size_bytes=8192 * 8192 * 2,
                dtype="bf16",
                values=values,
                unit="TFLOP/s",
            )


def _transfers(
    here: Sequence[int], slow: Slow, links: Mapping[tuple[int, int], float], noise: float, dice: random.Random
) -> Iterator[Measurement]:
    for number, pairs in enumerate(transfer_rounds(here)):
        for sender, receiver in pairs:
            part = min(slow.get(sender, 1.0), slow.get(receiver, 1.0), links.get((sender, receiver), 1.0))
            for size in SIZES[-1:] if len(here) > 64 else SIZES:
                yield _shared("inter-p2p", (sender, receiver), 2, size, _drawn(_PEAK[size] * part, noise, dice), number)


def _groups(here: Sequence[int], slow: Slow, noise: float, dice: random.Random) -> Iterator[Measurement]:
    """The full group in all sizes, and some pairs in the largest."""
    pairs = [pair for pairs in sampled_rounds(here, 3) for pair in pairs] if len(here) > 2 else []
    for group, sizes in [(tuple(here), SIZES), *((pair, SIZES[-1:]) for pair in pairs)]:
        part = min((slow[node] for node in group if node in slow), default=1.0)
        for size in sizes if len(here) > 1 else ():
            values = _drawn(_PEAK[size] * part * 7, noise, dice)
            yield _shared("inter-allreduce", group, 8 * len(group), size, values, 0)


def _shared(
    test: str, nodes: tuple[int, ...], ranks: int, size: int, values: tuple[float, ...], number: int
) -> Measurement:
    return Measurement(test=test, nodes=nodes, ranks=ranks, size_bytes=size, dtype="bf16", values=values, round=number)


def _drawn(value: float, noise: float, dice: random.Random) -> tuple[float, ...]:
    own = dice.gauss(1, noise / 2)  # a part of it is the machine's own
    return tuple(round(value * own * max(0.1, dice.gauss(1, noise)), 4) for _ in range(REPETITIONS))
