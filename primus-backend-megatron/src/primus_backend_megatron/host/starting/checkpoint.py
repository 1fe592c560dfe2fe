"""The checkpoint that a run would start from: there, readable, and fit for the model and the layout."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from functools import partial

from primus_backend_megatron.checkpoints import MEGATRON
from primus_backend_megatron.facts import Facts, read_facts
from primus_backend_megatron.host.legality.case import Case
from primus_backend_megatron.host.legality.weights import weights_of
from primus_backend_megatron.host.starting.layout import check_layout, check_optimizer
from primus_backend_megatron.host.starting.shapes import check_model
from primus_backend_megatron.host.starting.subject import Subject
from primus_backend_megatron.host.starting.told import finding
from primus_core.checkpoints.choosing import Choice, Wish
from primus_core.outcome import Finding, Severity
from primus_core.planning.starting import check_files, check_start, examine
from primus_core.weights.folder import check_folder

_FORMATS = ("torch_dist", "torch")
_SHARDED = ("torch_dcp", "fsdp_dtensor")
"""Formats of fully sharded models, which are not judged here: their layout is that of the ranks."""
_NATIVE = {"load_step": "ckpt_step"}
"""Portable names that Megatron spells otherwise."""


def check_checkpoint(case: Case, *, auto_continue: bool) -> Iterator[Finding]:
    """What is wrong with ``load`` and its like; nothing for a run that starts afresh, or from object storage."""

    def tell(check: str, summary: str, why: str, remedy: str, *keys: str, severity: Severity = "error") -> Finding:
        names = [_NATIVE.get(key, key) for key in keys]
        return finding(case, check, summary, names, remedy, why=why, severity=severity)

    return check_start(MEGATRON, _wish(case, auto_continue), tell, partial(_judge, case))


def _judge(case: Case, choice: Choice) -> Iterable[Finding]:
    checkpoint = choice.checkpoint
    if choice.huggingface:
        return check_folder(weights_of(case, choice.huggingface))
    if checkpoint is None:
        return ()
    subject = Subject(case=case, choice=choice, folder=str(checkpoint.folder), release=checkpoint.iteration == 0)
    return examine(subject.folder, subject.finding, partial(read_facts, checkpoint), partial(_fits, subject))


def _fits(subject: Subject, facts: Facts) -> Iterator[Finding]:
    lost = check_files(subject.folder, subject.finding, facts.lost)
    hindrance = lost or _format(subject, facts) or check_layout(subject, facts)
    if hindrance or facts.format not in _FORMATS:
        yield from hindrance
    else:
        yield from (*check_optimizer(subject, facts), *check_model(subject, facts))


def _wish(case: Case, auto_continue: bool) -> Wish:
    step = case.values["ckpt_step"]
    return Wish(
        save=_text(case, "save"),
        load=_text(case, "load"),
        pretrained_checkpoint=_text(case, "pretrained_checkpoint"),
        load_hf=_text(case, "load_hf"),
        load_step=step if isinstance(step, int) else None,
        auto_continue=auto_continue,
    )


def _text(case: Case, name: str) -> str | None:
    value = case.values[name]
    return value if isinstance(value, str) and value else None


def _format(subject: Subject, facts: Facts) -> tuple[Finding, ...]:
    """Megatron tells the formats apart by their files, but loads a sharded one only into a run that saves as such."""
    if facts.format in _FORMATS or subject.case.values["ckpt_format"] in _SHARDED:
        return ()
    what = f"{subject.folder} has the format {facts.format}"
    remedy = "set ckpt_format to it, or convert the checkpoint to torch_dist with Megatron's own tools"
    why = f"a run with this ckpt_format loads {' and '.join(_FORMATS)}"
    return (subject.finding("checkpoint-format", what, why, remedy, "ckpt_format"),)
