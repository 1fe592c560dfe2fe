"""What the parent needs of a plan, read with the standard library alone."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from typing import Any, NamedTuple

from primus_core.errors import ConfigError, DependencyError
from primus_core.log.levels import LEVELS
from primus_core.log.redaction import Redactor
from primus_core.patience import Patience, patience_of
from primus_core.rank.files import Limits
from primus_core.rank.watch import Rules, rules_of


class Brief(NamedTuple):
    """The parent's part of a plan and of its environment."""

    run_id: str
    run_dir: str
    module: str
    """The experiment's module, or the kind of a task without one; names the log folder."""
    rank: int
    world_size: int
    console_level: str
    file_level: str
    file_limits: Limits
    on_cpu: bool
    reports_metrics: bool
    """The console shows this rank's metrics: the lowest rank of the last pipeline stage has the loss."""
    forwards_events: bool
    """Another process renders the console."""
    redact: Redactor
    shows_output: bool = False
    """The console shows what this rank prints: the first rank of a user's own program."""
    apart: bool = False
    """The ranks do not depend on each other: none ends because another failed."""
    patience: Patience = Patience()
    watch: Rules = Rules()

    @property
    def log_folder(self) -> str:
        experiment = os.path.dirname(os.path.dirname(self.run_dir))
        return os.path.join(experiment, "logs", self.module, f"rank-{self.rank}")

    def rank_file(self, ending: str) -> str:
        """``{run_dir}/ranks/rank-N{ending}``."""
        return os.path.join(self.run_dir, "ranks", f"rank-{self.rank}{ending}")


def read_brief(path: str, env: Mapping[str, str]) -> Brief:
    """Read a plan in the environment of one rank.

    Raises:
        DependencyError: this node cannot read the file.
        ConfigError: it is no plan.
    """
    try:
        with open(path, encoding="utf-8") as file:
            return _brief(json.load(file), env)
    except OSError as error:
        raise DependencyError(
            "the plan cannot be read on this node",
            where=path,
            why=str(error),
            remedy="Keep `workspace:` on a file system that every node sees.",
        ) from None
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise ConfigError("not a plan", where=path, why=f"{type(error).__name__}: {error}") from None


def metrics_rank(world_size: int, pipeline: int) -> int:
    """The rank whose metrics the console shows: the first of the last pipeline stage.

    Both libraries number ranks with the pipeline stage as the slowest dimension (Megatron's order tp-cp-ep-dp-pp).
    """
    return world_size - world_size // max(pipeline, 1)


def _console_level(settings: Mapping[str, Any], env: Mapping[str, str]) -> str:
    """PRIMUS_LOG_LEVEL, which is for one run, counts more than the experiment."""
    asked = env.get("PRIMUS_LOG_LEVEL", "").lower()
    return asked if asked in LEVELS else str(settings.get("stderr_sink_level") or "warning").lower()


def _brief(plan: Mapping[str, Any], env: Mapping[str, str]) -> Brief:
    settings = plan["settings"]["values"]
    layout = (plan["translation"] or {}).get("layout", {})
    rank, world_size = int(env["RANK"]), int(env["WORLD_SIZE"])
    return Brief(
        run_id=plan["run_id"],
        run_dir=plan["run_dir"],
        module=plan["module"] or plan["task"]["kind"],
        rank=rank,
        world_size=world_size,
        console_level=_console_level(settings, env),
        file_level=str(settings.get("file_sink_level") or "debug").lower(),
        file_limits=Limits(int(settings.get("log_max_bytes") or 0), int(settings.get("log_backups") or 0)),
        on_cpu=plan["target"]["accelerator"] == "cpu",
        reports_metrics=rank == metrics_rank(world_size, layout.get("pipeline", 1)),
        forwards_events=env.get("PRIMUS_CONSOLE") == "events",
        redact=Redactor.of_environment(plan["secrets"], env),
        shows_output=rank == 0 and plan["task"]["kind"] == "script" and not plan["module"],
        apart=plan["task"]["runner"] == "plain",
        patience=patience_of(settings, plan["task"]["kind"]),
        watch=rules_of(plan),
    )
