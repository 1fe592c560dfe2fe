"""The steps of a rank from its plan to its result."""

from __future__ import annotations

from collections.abc import Mapping, MutableMapping, Sequence
from pathlib import Path

from primus_core import discovery, hooks
from primus_core.codec import from_json
from primus_core.contract import RankContext
from primus_core.errors import raise_all
from primus_core.log.emitter import Emitter
from primus_core.log.recording import record_everything
from primus_core.outcome import Finding, PatchReport, Where
from primus_core.patching import verify
from primus_core.patience import patience_of
from primus_core.plan import RunPlan
from primus_core.rank.adjustments import record_adjustments
from primus_core.rank.binding import tell_binding
from primus_core.rank.collectives import Collectives
from primus_core.rank.comparison import compare
from primus_core.rank.context import Context
from primus_core.rank.entries import call, find_entry
from primus_core.rank.helper import have_helpers_patched, have_helpers_recorded
from primus_core.rank.preparation import prepare
from primus_core.rank.tuning import tell_tuning, tune
from primus_core.rank.versions import versions
from primus_core.rundir import RunDir


def run(plan_path: str, emitter: Emitter, env: MutableMapping[str, str]) -> None:
    """Restore, compare, check, prepare, patch, verify, run; the result goes to the parent.

    Raises:
        PrimusError: a step found a reason not to go on.
        Exception: what the task's own code raises.
    """
    plan = from_json(RunPlan, Path(plan_path).read_text(encoding="utf-8"), source=plan_path)
    level = str(plan.settings.values.get("file_sink_level") or "debug")
    record_everything(emitter, level)
    have_helpers_recorded(emitter, level, env)
    run_dir = RunDir(Path(plan.run_dir))
    collectives = _observed(plan, run_dir, int(env["RANK"]))
    stop = patience_of(plan.settings.values, plan.task.kind).stop
    tuning = tune(plan, env)
    rank = Context(emitter, plan.run_id, run_dir, env, stop, collectives)
    tell_binding(rank)
    tell_tuning(tuning, rank)
    plugins = discovery.scan()
    emitter.emit({"kind": "versions", "value": versions(plan)})
    compare(plan, plugins, rank.world_size)
    back_end = hooks.load_rank(plugins, plan.framework)
    rank.phase("preflight")
    _check((*back_end.preflight(plan, Where.NODE, env), *_of_node(plan, plugins, env)), rank)
    prepare(plan, rank, run_dir)
    report = _patch(plan, rank, back_end)
    _tell(report, rank, emitter)
    record_adjustments(plan, rank)
    if plan.translation is not None:
        have_helpers_patched(plan_path, env)
    rank.phase("import")
    find_entry(plan.task.entry)
    verify(plan, report)  # again: importing the trainer may have replaced something
    rank.phase(plan.task.kind)
    result = call(plan, rank)
    collectives.end()
    emitter.emit({"kind": "result", "value": result})


def _of_node(plan: RunPlan, plugins: discovery.Plugins, env: Mapping[str, str]) -> tuple[Finding, ...]:
    """What checks of preflight plugins find on this node, for which its first rank asks; not about users' programs."""
    if plan.experiment is None or plan.preflight == "off" or env.get("LOCAL_RANK") != "0":
        return ()
    hosts = hooks.load_host(plugins, backend=plan.framework, launcher=None, preflight=True)
    found = hosts.preflight(plan, Where.NODE, env)
    if "container" in (plan.launcher, plan.job.inside) or plan.launcher == "ssh":  # the libraries are this node's own
        found = (*found, *hosts.unsupported(here=True))
    return tuple(hooks.as_errors(found)) if plan.preflight == "strict" else found


def _observed(plan: RunPlan, run_dir: RunDir, rank: int) -> Collectives:
    """A user's own program is left as it is."""
    collectives = Collectives()
    if plan.task.kind != "script":
        collectives.observe(str(run_dir.ranks), rank)
    return collectives


def _check(findings: Sequence[Finding], rank: RankContext) -> None:
    """Record what the checks found; an error ends the run."""
    for finding in findings:
        details = {"evidence": finding.evidence, "remedy": finding.remedy}
        rank.log(finding.severity, finding.summary, check=finding.check, **{k: v for k, v in details.items() if v})
    raise_all([finding.as_error() for finding in findings if finding.severity == "error"])


def _patch(plan: RunPlan, rank: RankContext, back_end: hooks.RankPlugins) -> PatchReport:
    if plan.translation is None:
        return PatchReport()
    rank.phase("patch")
    report = back_end.patch_backend(plan, rank)
    verify(plan, report)
    return report


def _tell(report: PatchReport, rank: RankContext, emitter: Emitter) -> None:
    """The ledger: in the report, in the log, and in one line on the console."""
    rows = [
        {"id": one.id, "target": one.target, "reason": one.reason, "state": one.state, "detail": one.detail}
        for one in report.results
    ]
    emitter.emit({"kind": "patches", "results": rows})
    for row in rows:
        rank.log("info", "patch", **{name: value for name, value in row.items() if value})
    if rows:
        rank.notice("patches", summary(report))


def summary(report: PatchReport) -> str:
    """``12 applied, 3 not needed here, 1 in spite of drift (id)``."""
    applied = sum(one.state != "skipped" for one in report.results)
    skipped = len(report.results) - applied
    drifted = [one.id for one in report.results if one.state == "drift-allowed"]
    parts = [f"{applied} applied"]
    parts += [f"{skipped} not needed here"] if skipped else []
    parts += [f"{len(drifted)} in spite of drift ({', '.join(drifted)})"] if drifted else []
    return ", ".join(parts)
