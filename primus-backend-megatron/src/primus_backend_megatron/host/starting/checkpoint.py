"""The checkpoint that a run would start from: there, readable, and fit for the model and the layout."""

from __future__ import annotations

from collections.abc import Iterator

from primus_backend_megatron.checkpoints import Checkpoint
from primus_backend_megatron.choosing import Choice, Missing, Wish, choose
from primus_backend_megatron.facts import Facts, read_facts
from primus_backend_megatron.host.legality.case import Case
from primus_backend_megatron.host.starting.layout import check_layout, check_optimizer
from primus_backend_megatron.host.starting.paths import is_address
from primus_backend_megatron.host.starting.shapes import check_model
from primus_backend_megatron.host.starting.subject import Subject
from primus_backend_megatron.host.starting.told import finding
from primus_core.checkpoints.faults import Forbidden, Unknown, Unreadable
from primus_core.outcome import Finding

_FORMATS = ("torch_dist", "torch")
_SHARDED = ("torch_dcp", "fsdp_dtensor")
"""Formats of fully sharded models, which are not judged here: their layout is that of the ranks."""


def check_checkpoint(case: Case, *, auto_continue: bool) -> Iterator[Finding]:
    """What is wrong with ``load`` and its like; nothing for a run that starts afresh, or from object storage."""
    if _wants_step_of_nothing(case):
        remedy = "set load too, or remove load_step to start from random weights"
        yield finding(case, "checkpoint", "load_step is set and load is not", ("ckpt_step",), remedy)
        return
    if any(is_address(path) for path in (_text(case, "load"), _text(case, "pretrained_checkpoint")) if path):
        return
    try:
        choice = choose(_wish(case, auto_continue))
    except OSError as error:
        why, remedy = f"{error.strerror}: {error.filename}", "give this user the right to read it"
        yield finding(
            case, "checkpoint", "the checkpoint to start from cannot be looked at", ("load",), remedy, why=why
        )
        return
    except Missing as missing:
        keys = dict.fromkeys((missing.parameter, "load" if case.values["load"] else "pretrained_checkpoint"))
        yield finding(case, "checkpoint", missing.what, keys, missing.remedy, why=missing.why)
        return
    if choice.checkpoint is not None:
        yield from _judge(case, choice, choice.checkpoint)


def _judge(case: Case, choice: Choice, checkpoint: Checkpoint) -> Iterator[Finding]:
    subject = Subject(case=case, choice=choice, folder=str(checkpoint.folder), release=checkpoint.iteration == 0)
    try:
        facts = read_facts(checkpoint)
    except Forbidden as forbidden:
        yield _forbidden(subject, forbidden)
    except Unknown as unknown:
        yield _unknown(subject, unknown)
    except (Unreadable, OSError) as unreadable:
        yield _unreadable(subject, unreadable)
    else:
        hindrance = _lost(subject, facts) or _format(subject, facts) or check_layout(subject, facts)
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
        ckpt_step=step if isinstance(step, int) else None,
        auto_continue=auto_continue,
    )


def _wants_step_of_nothing(case: Case) -> bool:
    named = case.values["load"] or case.values["pretrained_checkpoint"]
    return case.values["ckpt_step"] is not None and not named


def _text(case: Case, name: str) -> str | None:
    value = case.values[name]
    return value if isinstance(value, str) and value else None


def _forbidden(subject: Subject, forbidden: Forbidden) -> Finding:
    why = f"its metadata names `{forbidden.name}`, which no checkpoint needs; to load it could run foreign code"
    remedy = "take the checkpoint from a source that you trust, and do not open this one with other tools"
    return subject.finding("checkpoint-trust", f"{subject.folder} is not safe to load", why, remedy)


def _unreadable(subject: Subject, unreadable: Exception) -> Finding:
    remedy = "copy the checkpoint again, or start from another one with load_step"
    return subject.finding("checkpoint-damage", f"{subject.folder} cannot be read", str(unreadable), remedy)


def _unknown(subject: Subject, unknown: Unknown) -> Finding:
    what = f"{subject.folder} is not checked before the start"
    remedy = "nothing, if it is known to fit: the ranks find out when they load it"
    return subject.finding("checkpoint-unknown", what, str(unknown), remedy, severity="warning")


def _format(subject: Subject, facts: Facts) -> tuple[Finding, ...]:
    """Megatron tells the formats apart by their files, but loads a sharded one only into a run that saves as such."""
    if facts.format in _FORMATS or subject.case.values["ckpt_format"] in _SHARDED:
        return ()
    what = f"{subject.folder} has the format {facts.format}"
    remedy = "set ckpt_format to it, or convert the checkpoint to torch_dist with Megatron's own tools"
    why = f"a run with this ckpt_format loads {' and '.join(_FORMATS)}"
    return (subject.finding("checkpoint-format", what, why, remedy, "ckpt_format"),)


def _lost(subject: Subject, facts: Facts) -> tuple[Finding, ...]:
    if not facts.lost:
        return ()
    what = f"{subject.folder} is not whole"
    why = f"{len(facts.lost)} of its files missing or cut short: {', '.join(facts.lost[:4])}"
    return (subject.finding("checkpoint-damage", what, why, "copy the checkpoint again, or take another one"),)
