"""The checkpoint that a run would start from: there, readable, and fit for the model."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial

from attrs import evolve, frozen

from primus_backend_torchtitan.checkpoints import TITAN, wish_of
from primus_backend_torchtitan.facts import Facts, read_facts
from primus_backend_torchtitan.host.case import Case
from primus_backend_torchtitan.host.legality.weights import weights_of
from primus_backend_torchtitan.host.portable import RULES
from primus_backend_torchtitan.host.starting.shapes import check_model
from primus_core.checkpoints.choosing import Choice
from primus_core.outcome import Finding, Severity
from primus_core.planning.starting import check_files, check_start, examine
from primus_core.weights.folder import check_folder


def check_checkpoint(case: Case, *, auto_continue: bool) -> Iterator[Finding]:
    """What is wrong with ``load`` and its like; nothing for a run that starts afresh, or from object storage."""
    wish = wish_of(case.values, auto_continue=auto_continue)
    return check_start(TITAN, wish, _Teller(case), partial(_judge, case))


@frozen
class _Teller:
    """Makes findings at the line of the first parameter, with the values and lines of all."""

    case: Case
    first: tuple[str, ...] = ()
    """Parameters that every finding concerns."""

    def __call__(
        self, check: str, summary: str, why: str, remedy: str, *keys: str, severity: Severity = "error"
    ) -> Finding:
        names = [RULES[key].native if key in RULES else f"model.{key}" for key in (*self.first, *keys)]
        told = self.case.error(check, summary, names, remedy)
        path = self.case.paths.get(names[0], "")
        where = self.case.module.origin(path) if path in self.case.module.params else ""
        evidence = "\n".join(filter(None, (why, told.evidence)))
        return evolve(told, severity=severity, where=where, evidence=evidence)


def _judge(case: Case, choice: Choice) -> Iterable[Finding]:
    checkpoint = choice.checkpoint
    if choice.huggingface:
        return check_folder(weights_of(case, choice.huggingface))
    if checkpoint is None:
        return ()
    tell = _Teller(case, ("save" if choice.continues else "load",))
    folder = str(checkpoint.folder)
    return examine(folder, tell, partial(read_facts, checkpoint), partial(_fits, case, folder, tell))


def _fits(case: Case, folder: str, tell: _Teller, facts: Facts) -> Iterator[Finding]:
    if lost := check_files(folder, tell, facts.lost):
        yield from lost
        return
    left_out = case.values["checkpoint.exclude_from_loading"]
    left_out = left_out if isinstance(left_out, list) else []
    if not facts.optimizer and "optimizer" not in left_out:
        why = "it was saved with last_save_model_only, or is of other origin"
        remedy = f"take the weights alone: checkpoint.initial_load_path: {folder}, in place of load"
        yield tell("checkpoint-optimizer", f"{folder} has no optimizer state to go on with", why, remedy)
    elif not facts.position and "dataloader" not in left_out:
        why = "its data was read by another loader, whose place means nothing here"
        remedy = "set checkpoint.exclude_from_loading: [dataloader], to begin with the first sample"
        yield tell("checkpoint-data", f"{folder} does not tell the place in the data as Primus does", why, remedy)
    yield from check_model(case, facts, folder, tell)
