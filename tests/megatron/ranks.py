"""Real ranks for the tests of the Megatron back end: forked from one process that has imported everything."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from attrs import field, frozen

from primus_backend_megatron.host.schema import schema_for
from primus_backend_megatron.patch_plan import plan_patches
from primus_core.codec import to_json
from primus_core.experiment import Value
from primus_core.plan import Job, Layout, PatchSpec, RunPlan, Settings, Target, Task, Translation

ENTRY = "primus_backend_megatron.rank.train:run"

CPU: Mapping[str, Value] = {
    "transformer_impl": "local",
    "distributed_backend": "gloo",
    "masked_softmax_fusion": False,
    "gradient_accumulation_fusion": False,
    "bias_gelu_fusion": False,
    "bias_swiglu_fusion": False,
    "bias_dropout_fusion": False,
    "apply_rope_fusion": False,
    "no_persist_layer_norm": True,
    "num_workers": 0,
}
"""What differs from Megatron's defaults on a CPU."""

LLAMA: Mapping[str, Value] = {
    "num_layers": 2,
    "hidden_size": 64,
    "ffn_hidden_size": 128,
    "num_attention_heads": 4,
    "group_query_attention": True,
    "num_query_groups": 2,
    "swiglu": True,
    "normalization": "RMSNorm",
    "position_embedding_type": "rope",
    "add_bias_linear": False,
    "untie_embeddings_and_output_weights": True,
    "attention_dropout": 0.0,
    "hidden_dropout": 0.0,
    "seq_length": 32,
    "max_position_embeddings": 32,
    "micro_batch_size": 2,
    "global_batch_size": 8,
    "train_iters": 6,
    "lr": 1e-2,
    "min_lr": 1e-3,
    "lr_decay_style": "cosine",
    "log_interval": 1,
    "eval_interval": 1000,
    "eval_iters": 0,
    "mock_data": True,
    "vocab_size": 250,
}
"""A Llama of a few thousand parameters on generated data."""


def make_plan(
    native: Mapping[str, Value] | None = None,
    *,
    folder: Path | str = "/nowhere",
    world: int = 2,
    patches: tuple[PatchSpec, ...] | None = None,
    settings: Mapping[str, Value] | None = None,
) -> RunPlan:
    """The plan of a training run, as the host would make it: with the patches that its values need."""
    native = {**CPU, **LLAMA, **(native or {})}
    target = Target(accelerator="cpu", library_version="0.19.2", ranks_per_node=world)
    task = Task(kind="train", entry=ENTRY, ranks_per_node=world)
    return RunPlan(
        run_id="test",
        run_dir=str(folder),
        target=target,
        task=task,
        framework="megatron",
        module="pre_trainer",
        settings=Settings(values=settings or {}),
        translation=Translation(
            native=native,
            entry=ENTRY,
            layout=Layout(),
            patches=plan_patches(target, with_defaults(native)) if patches is None else patches,
            environment={"CUDA_DEVICE_MAX_CONNECTIONS": "1"},
        ),
        job=Job(run_id="test", name="test", task=task, python=sys.executable, argv=()),
        launcher="single",
    )


def with_defaults(native: Mapping[str, Value]) -> Mapping[str, Value]:
    """All of Megatron's parameters."""
    parameters = schema_for("0.19.2").parameters
    return {**{name: parameter.default for name, parameter in parameters.items()}, **native}


def all_patches() -> tuple[PatchSpec, ...]:
    """Everything that may be planned on a CPU."""
    return plan_patches(Target(accelerator="cpu", library_version="0.19.2", ranks_per_node=1))


@frozen(kw_only=True)
class Outcome:
    """What the ranks of one run left behind."""

    codes: tuple[int, ...]
    lines: tuple[tuple[Mapping[str, Any], ...], ...] = field(repr=False)
    texts: tuple[str, ...] = field(repr=False)

    def rows(self, rank: int = -1) -> list[Mapping[str, Any]]:
        return [line for line in self.lines[rank] if line["kind"] == "metrics"]

    def losses(self, rank: int = -1) -> list[float]:
        return [row["loss"] for row in self.rows(rank)]

    def of(self, kind: str, rank: int = 0) -> list[Mapping[str, Any]]:
        return [line for line in self.lines[rank] if line["kind"] == kind]

    def result(self, rank: int = -1) -> Mapping[str, Any]:
        (line,) = self.of("result", rank)
        value: Mapping[str, Any] = line["value"]
        return value

    def error(self, rank: int = 0) -> Mapping[str, Any]:
        (line,) = self.of("error", rank)
        return line

    def check(self) -> Outcome:
        """Fails with the first failed rank's last output."""
        for code, text in zip(self.codes, self.texts, strict=True):
            assert code == 0, f"exit status {self.codes}\n{text[-4000:]}"
        return self


def told(outcome: Outcome) -> list[str]:
    """What each rank said to the user, and what it returned or failed of."""
    tell: Mapping[str, Callable[[Mapping[str, Any]], str]] = {
        "notice": lambda line: str(line["text"]),
        "result": lambda line: json.dumps(line["value"]),
        "error": lambda line: f"{line['type']}: {line['text']} {line['why']}",
    }
    return [tell[line["kind"]](line) for lines in outcome.lines for line in lines if line["kind"] in tell]


class Ranks:
    """The process that forks; a context manager."""

    def __init__(self) -> None:
        self._process = subprocess.Popen(
            [sys.executable, "-m", "tests.megatron.zygote"],
            cwd=Path(__file__).parents[2],
            env={**os.environ, "OMP_NUM_THREADS": "1"},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        self._say(to_json(make_plan(patches=all_patches()), indent=None))
        self.ready = self._hear()

    def __enter__(self) -> Ranks:
        return self

    def __exit__(self, *_: object) -> None:
        assert self._process.stdin
        self._process.stdin.close()
        self._process.wait(20)

    def run(
        self,
        folder: Path,
        native: Mapping[str, Value] | None = None,
        *,
        world: int = 2,
        entry: str = ENTRY,
        kill: str | None = None,
        prepared: Mapping[str, Any] | None = None,
        settings: Mapping[str, Value] | None = None,
    ) -> Outcome:
        """Run an entry in fresh ranks on native values; ``kill`` and ``prepared`` as for `start`."""
        plan = make_plan(native, folder=folder, world=world, settings=settings)
        return self.start(plan, folder, entry=entry, kill=kill, prepared=prepared)

    def start(
        self,
        plan: RunPlan,
        folder: Path,
        *,
        entry: str = ENTRY,
        kill: str | None = None,
        prepared: Mapping[str, Any] | None = None,
    ) -> Outcome:
        """Run a plan in fresh ranks.

        Args:
            kill: rank 0 dies of SIGKILL when what it reported matches this pattern.
            prepared: results of preparations, by name.
        """
        folder.mkdir(parents=True, exist_ok=True)
        request = {
            "plan": to_json(plan, indent=None),
            "folder": str(folder),
            "world": plan.target.world_size,
            "entry": entry,
            "port": free_port(),
            "kill": kill,
            "prepared": prepared,
        }
        self._say(json.dumps(request))
        return outcome_of(folder, self._hear()["codes"])

    def _say(self, text: str) -> None:
        assert self._process.stdin
        self._process.stdin.write(text.strip() + "\n")
        self._process.stdin.flush()

    def _hear(self) -> Mapping[str, Any]:
        assert self._process.stdout
        line = self._process.stdout.readline()
        assert line, "the process that forks ranks has died"
        answer: Mapping[str, Any] = json.loads(line)
        return answer


def outcome_of(folder: Path, codes: list[int]) -> Outcome:
    lines = []
    for rank in range(len(codes)):
        text = (folder / f"rank-{rank}.jsonl").read_text()
        # A killed rank may have been writing.
        lines.append(tuple(json.loads(line) for line in text.splitlines(keepends=True) if line.endswith("\n")))
    texts = tuple((folder / f"rank-{rank}.txt").read_text(errors="replace") for rank in range(len(codes)))
    return Outcome(codes=tuple(codes), lines=tuple(lines), texts=texts)


def free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])
