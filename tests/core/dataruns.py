"""Helpers that run the data task in this process, on real files."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from attrs import define, field

from primus_core.data.indexed import IndexedReader
from primus_core.data.prepare import run
from primus_core.experiment import Leaf, Origin, Value
from primus_core.plan import Job, RunPlan, Settings, Target, Task
from primus_core.planning.datafiles import data_task

EOD = 257
OLD = 1_600_000_000


@define(kw_only=True)
class Rank:
    """A rank that remembers what it was told."""

    rank: int = 0
    local_rank: int = 0
    world_size: int = 1
    env: Mapping[str, str] = field(factory=lambda: {"HF_HUB_OFFLINE": "1"})
    notices: list[str] = field(factory=list)
    logged: list[tuple[str, str, dict[str, object]]] = field(factory=list)
    bars: list[tuple[str, int, int | None, str]] = field(factory=list)
    on_bar: Callable[[str], object] = lambda _: None
    on_notice: Callable[[str], object] = lambda _: None

    def phase(self, name: str) -> None:
        raise AssertionError(f"data preparation is one phase of the runtime, not {name}")

    def metrics(self, row: Mapping[str, object]) -> None:
        raise AssertionError(f"no step was made: {row}")

    def progress(self, what: str, done: int, total: int | None, unit: str) -> None:
        self.bars.append((what, done, total, unit))
        self.on_bar(what)

    def log(self, level: str, event: str, **values: object) -> None:
        self.logged.append((level, event, values))

    def notice(self, topic: str, text: str) -> None:
        self.notices.append(f"{topic}  {text}")
        self.on_notice(text)

    def prepared(self, name: str) -> Mapping[str, object]:
        raise AssertionError(f"nothing is prepared before the data: {name}")


def plan(folder: Path, **params: Value) -> RunPlan:
    """A plan whose data task was made from an experiment's parameters."""
    params = {"tokenizer_type": "ByteLevelTokenizer", **params}
    settings = Settings(values={"text_field": params.pop("text_field", "text")})
    leaves = {key: Leaf(value=value, origin=Origin(file="exp.yaml", line=1)) for key, value in params.items()}
    made = data_task(leaves, settings, str(folder), str(folder / "ws"))
    assert made is not None
    return with_task(made)


def with_task(made: Task) -> RunPlan:
    return RunPlan(
        run_id="r",
        run_dir="/r",
        target=Target(accelerator="cpu", library_version="1", ranks_per_node=1),
        task=Task(kind="train", entry="x:y"),
        prepare=(made,),
        job=Job(run_id="r", name="n", task=made, python=sys.executable, argv=()),
        launcher="single",
    )


def prepare(work: RunPlan, rank: Rank | None = None) -> Any:
    """Run the data task; its result, whose layout the tests look into."""
    return run(work, rank or Rank())


def documents(result: Mapping[str, Any], split: str = "train", source: int = 0) -> list[list[int]]:
    reader = IndexedReader(result[split][source]["prefix"])
    return [reader.document(i).tolist() for i in range(len(reader))]


def cache(folder: Path) -> Path:
    return folder / "ws" / "cache" / "data"


def entries(folder: Path) -> list[str]:
    return sorted(p.name for p in cache(folder).glob("*") if p.is_dir() and p.name != ".locks")


def aged(path: Path, content: str | bytes) -> Path:
    """A file that was last changed long ago, so that what is found about it may be remembered."""
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(content.encode() if isinstance(content, str) else content)
    os.utime(path, (OLD, OLD))
    return path
