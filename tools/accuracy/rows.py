"""One comparison each, as the programs print them and as they are kept from run to run."""

from __future__ import annotations

import json
import resource
import subprocess
import sys
import time
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from attrs import frozen

from tools.accuracy.groups import Group, Limits


@frozen(kw_only=True)
class Row:
    """A projected figure beside a measured one."""

    model: str
    layout: str
    projected: float | None
    measured: float | None
    note: str = ""
    """Why a figure is missing, or what else is in the measured one."""
    differences: tuple[str, ...] = ()
    """Of single figures whose sums may be equal."""

    def is_off(self, limits: Limits | None) -> bool:
        """Whether it differs by more than so much, or lacks a figure without a reason.

        Args:
            limits: None where there is nothing to project.
        """
        if self.differences:
            return True
        if self.measured is None:
            return not self.note
        if self.error is None or limits is None:
            return limits is not None
        return not limits.allow(self.error)

    @property
    def error(self) -> float | None:
        """Percent of the measured figure, negative where the projection is too low; None where one is missing."""
        if self.projected is None or self.measured is None:
            return None
        if self.measured == self.projected:
            return 0.0
        return (self.projected - self.measured) / self.measured * 100 if self.measured else float("inf")


@frozen(kw_only=True)
class Outcome:
    """What came of a group's program."""

    rows: tuple[Row, ...]
    seconds: float
    memory: int = 0
    """Bytes of the largest process of the program, or of one that ran before it."""
    problem: str = ""
    """Why there are not all rows, or what its program found wrong itself."""
    date: str = ""
    tree: str = ""
    """The commit that was measured; with ``-dirty`` where files differ from it. Empty outside of Git."""
    whole: bool = True
    """The program came to its end."""

    def off(self, group: Group) -> int:
        """How many rows differ by more than the group allows."""
        return sum(row.is_off(group.limits(row.model)) for row in self.rows)


def kept(group: Group, folder: Path) -> Outcome | None:
    """What an earlier start of the group's program left in ``MODULE.jsonl``; None where there is nothing."""
    file = folder / f"{group.module}.jsonl"
    return _read(file) if file.exists() else None


def run(group: Group, root: Path, folder: Path) -> Outcome:
    """Start the group's program, and read what it prints.

    Args:
        folder: to keep in what it prints.
    """
    started = time.monotonic()
    file = folder / f"{group.module}.jsonl"
    with file.open("w", encoding="utf-8") as kept_:
        words = [sys.executable, "-m", group.module]
        done = subprocess.run(words, cwd=root, stdout=kept_, stderr=subprocess.PIPE, text=True, check=False)
        problem = "" if done.returncode == 0 else f"it ended with {done.returncode}: {_last_line(done.stderr)}"
        memory = resource.getrusage(resource.RUSAGE_CHILDREN).ru_maxrss * 1024
        when = {"date": time.strftime("%Y-%m-%d", time.gmtime()), "tree": _tree(root)}
        end = {"seconds": time.monotonic() - started, "memory": memory, "problem": problem, **when}
        kept_.write(json.dumps(end) + "\n")
    return _read(file)


def _tree(root: Path) -> str:
    words = ["git", "describe", "--always", "--dirty", "--exclude=*"]
    try:
        return subprocess.run(words, cwd=root, capture_output=True, text=True, check=False).stdout.strip()
    except FileNotFoundError:  # no Git
        return ""


def _read(file: Path) -> Outcome:
    lines = [line for line in file.read_text(encoding="utf-8").splitlines() if line.startswith("{")]
    told = [json.loads(line) for line in lines if line.endswith("}")]
    rows = tuple(row_of(one) for one in told if "model" in one)
    if told and "seconds" in told[-1]:
        end = (
            told[-1] if rows or told[-1]["problem"] else {**told[-1], "problem": "its program found nothing to compare"}
        )
        return Outcome(rows=rows, **end)
    return Outcome(rows=rows, seconds=0.0, problem="its program was ended before its last row", whole=False)


def row_of(told: Mapping[str, Any]) -> Row:
    """The row that a program told."""
    return Row(
        model=str(told["model"]),
        layout=str(told["layout"]),
        projected=told["projected"],
        measured=told["measured"],
        note=str(told.get("note", "")),
        differences=tuple(map(str, told.get("differences", ()))),
    )


def _last_line(text: str) -> str:
    lines = text.strip().splitlines()
    return lines[-1] if lines else "it said nothing"
