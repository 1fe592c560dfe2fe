"""How the performance tests run: what users may set, and what holds where they set nothing."""

from __future__ import annotations

import argparse
import math
import re
from collections.abc import Mapping
from typing import Any

from attrs import evolve

from primus_core.errors import ConfigError
from primus_core.experiment import Value
from primus_core.plan import Accelerator
from primus_core.records import frozen

_MIB = 1 << 20
_UNITS = {"": 1, "k": 1 << 10, "m": _MIB, "g": 1 << 30}
_SIZE = re.compile(r"(\d+)\s*([kmg]?)(?:i?b)?", re.IGNORECASE)


@frozen(kw_only=True)
class Options:
    """Of all performance tests."""

    sizes: tuple[int, ...]
    """Bytes of each rank's buffer in tests of communication."""
    group_sizes: tuple[int, ...] = ()
    """Numbers of nodes of the groups, beside the full group; each is tried in groups that run at the same time."""
    warmup: int = 1
    """Times that something is done before it counts."""
    iterations: int = 5
    """Repetitions, each of which is measured and verified."""
    seconds: float = 60.0
    """Limit of one test of one size; workers that have not answered then are ended and started again."""
    join_seconds: float = 60.0
    """How long nodes wait for each other at the beginning, and for their workers."""
    meeting_seconds: float = math.inf
    """Limit of all that nodes do once they have come; see `primus_preflight.performance.budget`."""
    ranks_per_node: int = 0
    """Worker processes of a node; 0: one for each device."""
    gemm_size: int = 1024
    """Rows and columns of the square matrices."""
    dtype: str = "fp32"
    """Of the matrices and of the training step; communication is always tested in fp32, whose sums are exact here."""
    memory_bytes: int = 64 * _MIB
    """Size of the copies in the device's memory."""


_DEFAULTS: Mapping[bool, Options] = {
    False: Options(sizes=(_MIB, 8 * _MIB)),
    True: Options(
        sizes=(_MIB, 16 * _MIB, 256 * _MIB),
        warmup=3,
        iterations=10,
        gemm_size=8192,
        dtype="bf16",
        memory_bytes=1024 * _MIB,
    ),
}
"""By whether there are accelerators."""


def add_options(parser: argparse.ArgumentParser) -> None:
    """The command line's options of performance tests."""
    group = parser.add_argument_group("performance tests")
    group.add_argument("--sizes", metavar="LIST", help="bytes of a rank's buffer, such as 1M,64M")
    group.add_argument("--group-sizes", metavar="LIST", help="nodes in a group beside the full one, such as 2,4")
    group.add_argument("--warmup", type=int, metavar="N", help="runs before those that count")
    group.add_argument("--iterations", type=int, metavar="N", help="measured repetitions")
    group.add_argument("--test-seconds", type=float, metavar="S", help="limit of one test of one size")
    group.add_argument("--join-seconds", type=float, metavar="S", help="how long nodes wait for each other")
    group.add_argument("--ranks-per-node", type=int, metavar="N", help="workers of a node; default: one a device")
    group.add_argument("--gemm-size", type=int, metavar="N", help="rows and columns of the matrices")
    group.add_argument("--dtype", choices=("fp32", "fp16", "bf16"), help="of the matrices and the training step")


def options_of(args: argparse.Namespace) -> dict[str, Value]:
    """What the user set, for the plan.

    Raises:
        ConfigError: a size that is none, or a number that is out of its range.
    """
    found: dict[str, Value] = {
        "sizes": _list("--sizes", args.sizes, _bytes),
        "group_sizes": _list("--group-sizes", args.group_sizes, int),
        "warmup": _least("--warmup", args.warmup, 0),
        "iterations": _least("--iterations", args.iterations, 1),
        "seconds": _least("--test-seconds", args.test_seconds, 1),
        "join_seconds": _least("--join-seconds", args.join_seconds, 1),
        "ranks_per_node": _least("--ranks-per-node", args.ranks_per_node, 1),
        "gemm_size": _least("--gemm-size", args.gemm_size, 1),
        "dtype": args.dtype,
    }
    return {name: value for name, value in found.items() if value is not None}


def options_for(given: Mapping[str, Value], accelerator: Accelerator, *, quick: bool) -> Options:
    """What holds on nodes with an accelerator.

    Args:
        given: what `options_of` told.
        quick: the largest size alone is tested.
    """
    default = _DEFAULTS[accelerator != "cpu"]
    changes: dict[str, Any] = {
        name: tuple(value) if isinstance(value, list) else value for name, value in given.items()
    }
    if quick and "sizes" not in given:
        changes["sizes"] = default.sizes[-1:]
    return evolve(default, **changes)


def _list(option: str, text: str | None, read: Any) -> list[Value] | None:
    if text is None:
        return None
    try:
        numbers = [read(word) for word in text.split(",")]
    except ValueError:
        numbers = []
    if not numbers or min(numbers) < 1:
        raise ConfigError(f"{text!r} is no list of sizes", where=option, remedy="write for instance 1M,64M or 2,4")
    return sorted(set(numbers))


def _bytes(word: str) -> int:
    match = _SIZE.fullmatch(word.strip())
    if match is None:
        raise ValueError(word)
    return int(match[1]) * _UNITS[match[2].lower()]


def _least(option: str, number: float | None, least: int) -> float | None:
    if number is not None and number < least:
        raise ConfigError(f"{number:g} is too little", where=option, remedy=f"at least {least}")
    return number
