"""The words for what is wrong with the checkpoint that a run would start from, the same for every back end.

A back end knows its library's checkpoints and its own parameters; it gives a `Tell`, which makes the finding.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Protocol, TypeVar

from attrs import frozen

from primus_core.checkpoints.choosing import Choice, Library, Missing, Wish, choose
from primus_core.checkpoints.faults import Forbidden, Unknown, Unreadable
from primus_core.checkpoints.settling import size_faults
from primus_core.outcome import Finding, Severity
from primus_core.planning.addresses import is_address

Facts = TypeVar("Facts")


class Tell(Protocol):
    """Makes a finding, with the values and lines of parameters, which are named as every back end does."""

    def __call__(
        self, check: str, summary: str, why: str, remedy: str, *keys: str, severity: Severity = "error"
    ) -> Finding: ...


def check_start(
    library: Library, wish: Wish, tell: Tell, judge: Callable[[Choice], Iterable[Finding]]
) -> Iterator[Finding]:
    """What is wrong with ``load`` and its like; nothing for a run that starts afresh, or from object storage.

    Args:
        judge: looks at the checkpoint that was chosen, or at the Hugging Face folder.
    """
    named = wish.load or wish.pretrained_checkpoint
    if wish.load_step is not None and not named:
        remedy = "set load too, or remove load_step to start from random weights"
        yield tell("checkpoint", "load_step is set and load is not", "", remedy, "load_step")
        return
    if any(is_address(path) for path in (wish.load, wish.pretrained_checkpoint) if path):
        return
    try:
        choice = choose(library, wish)
    except OSError as error:
        why, remedy = f"{error.strerror}: {error.filename}", "give this user the right to read it"
        yield tell("checkpoint", "the checkpoint to start from cannot be looked at", why, remedy, "load")
    except Missing as missing:
        keys = dict.fromkeys((missing.parameter, "load" if wish.load else "pretrained_checkpoint"))
        yield tell("checkpoint", missing.what, missing.why, missing.remedy, *keys)
    else:
        choice, warnings = _sound(choice, tell)
        yield from warnings
        yield from judge(choice) if choice.checkpoint is not None or choice.huggingface else ()


def _sound(choice: Choice, tell: Tell) -> tuple[Choice, list[Finding]]:
    """An older checkpoint in place of damaged ones, as the ranks will take it; the choice itself where all are."""
    key = "save" if choice.continues else "pretrained_checkpoint" if choice.pretrained else "load"
    taken, damaged = choice, []
    while (found := taken.checkpoint) is not None and (told := size_faults(found)):
        if not taken.older:
            return choice, []
        taken = taken.without_newest()
        damaged.append((found, told))
    instead = f"the run takes the one of iteration {taken.checkpoint.iteration} instead" if taken.checkpoint else ""
    remedy = "copy it again, or delete it"
    return taken, [
        tell("checkpoint-damage", f"{found.folder} is damaged", f"{told}\n{instead}", remedy, key, severity="warning")
        for found, told in damaged
    ]


def examine(
    folder: str, tell: Tell, read: Callable[[], Facts], judge: Callable[[Facts], Iterable[Finding]]
) -> Iterator[Finding]:
    """What is wrong with a checkpoint by what is read of it, or that it could not be read."""
    try:
        facts = read()
    except Forbidden as forbidden:
        why = f"its metadata names `{forbidden.name}`, which no checkpoint needs; to load it could run foreign code"
        remedy = "take the checkpoint from a source that you trust, and do not open this one with other tools"
        yield tell("checkpoint-trust", f"{folder} is not safe to load", why, remedy)
    except Unknown as unknown:
        remedy = "nothing, if it is known to fit: the ranks find out when they load it"
        what = f"{folder} is not checked before the start"
        yield tell("checkpoint-unknown", what, str(unknown), remedy, severity="warning")
    except (Unreadable, OSError) as unreadable:
        remedy = "copy the checkpoint again, or start from another one with load_step"
        yield tell("checkpoint-damage", f"{folder} cannot be read", str(unreadable), remedy)
    else:
        yield from judge(facts)


def check_files(folder: str, tell: Tell, lost: Sequence[str]) -> tuple[Finding, ...]:
    """A finding where files of a checkpoint are not there as a whole."""
    if not lost:
        return ()
    why = f"{len(lost)} of its files missing or cut short: {', '.join(lost[:4])}"
    remedy = "copy the checkpoint again, or take another one"
    return (tell("checkpoint-damage", f"{folder} is not whole", why, remedy),)


def compared(name: str, theirs: tuple[int, ...], ours: tuple[int, ...]) -> str:
    """A weight's shape on both sides; empty where one is not known."""
    return f"{name} is {list(theirs)} in the checkpoint and {list(ours)} in the model" if theirs and ours else ""


@frozen
class Misfit:
    """A checkpoint of another model than the one that is to be trained."""

    folder: str
    tell: Tell

    def layers(self, theirs: int, ours: int, why: str) -> Finding:
        what = f"{self.folder} is of a model with {theirs} layers, this one has {ours}"
        return self._told(what, why, f"set num_layers: {theirs}", "num_layers")

    def width(self, theirs: int, ours: int, why: str) -> Finding:
        what = f"{self.folder} is of a model with hidden_size {theirs}, this one has {ours}"
        return self._told(what, why, f"set hidden_size: {theirs}", "hidden_size")

    def heads(self, theirs: int, ours: int) -> Finding:
        """What no shape tells: the same weights read as other heads are another model."""
        what = f"{self.folder} is of a model with {theirs} attention heads, this one has {ours}"
        why = "the same weights mean something else"
        return self._told(what, why, f"set num_attention_heads: {theirs}", "num_attention_heads")

    def vocabulary(self, theirs: int, ours: int, rows: int, why: str) -> Finding:
        """Another vocabulary, or, where it is the same, another number of rows for it."""
        what = f"{self.folder} is of a model with a vocabulary of {theirs:,}, this one has {ours:,}"
        wanted = f"vocab_size: {theirs}, and use the tokenizer it was trained with"
        if theirs == ours:
            wanted = f"padded_vocab_size: {rows}"
        return self._told(what, why, f"set {wanted}", "vocab_size", "padded_vocab_size")

    def shape(self, name: str, why: str, keys: Iterable[str]) -> Finding:
        what = f"{name} of {self.folder} does not fit the model"
        return self._told(what, why, "give the model the checkpoint's sizes", *keys)

    def presence(self, name: str, keys: Sequence[str], why: str, *, wanted: bool) -> Finding:
        """A weight that the model has and the checkpoint lacks, or the other way round."""
        theirs, ours = ("lacks", "has") if wanted else ("has", "lacks")
        what = f"{self.folder} {theirs} {name}, which the model {ours}"
        return self._told(what, why, f"set {' and '.join(keys)} as it was trained", *keys)

    def _told(self, what: str, why: str, remedy: str, *keys: str) -> Finding:
        return self.tell("checkpoint-model", what, why, remedy, *keys)
