"""Which checkpoint a run starts from; hosts ask before anything is started, ranks before the library looks.

Standard library only.
"""

from __future__ import annotations

import difflib
import os
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path

from attrs import evolve, frozen

from primus_core.checkpoints.faults import Unreadable
from primus_core.checkpoints.folders import LIBRARIES, MARKER, Checkpoint, Naming, latest, newest_first
from primus_core.checkpoints.sidecar import read_sidecar
from primus_core.checkpoints.steps import list_steps


@frozen(kw_only=True)
class Library:
    """The checkpoints of one library, those of others included that Primus did not write."""

    name: str
    """As `LIBRARIES` has it."""
    newest: Callable[[Path], Checkpoint | None]
    """The one that the library itself holds for whole, of a folder without any marker of ours."""
    holds_for_whole: Callable[[Path], bool]
    """Whether it does so for one that is asked for by its iteration."""
    voucher: str
    """By what: ``Megatron's tracker file``."""

    @property
    def naming(self) -> Naming:
        return LIBRARIES[self.name]

    def newest_checkpoint(self, folder: str | Path) -> Checkpoint | None:
        """The whole checkpoint that was written last, or None.

        A folder that holds any checkpoint of ours is judged by our markers alone: what the library holds for whole
        in a folder that we write in may be one that a later run began to overwrite.
        """
        return latest(self.naming.marked(folder)) or self.newest(Path(folder))


@frozen(kw_only=True)
class Wish:
    """The parameters that decide, by their portable names."""

    save: str | None = None
    load: str | None = None
    load_step: int | None = None
    pretrained_checkpoint: str | None = None
    """A folder to take the weights from alone, for a library that has such a parameter."""
    load_hf: str | None = None
    """A Hugging Face folder to take the weights from."""
    own_run: str | None = None
    """A run that is started again: what it wrote itself to ``save`` wins over everything else."""
    auto_continue: bool = False
    """The whole checkpoint that was last written to ``save`` wins over ``load``."""


@frozen(kw_only=True)
class Choice:
    """What a run starts from."""

    checkpoint: Checkpoint | None
    """None: random weights, as asked."""
    continues: bool = False
    """It is the run's own: optimizer, data position and random numbers go on, however the run was begun."""
    pretrained: bool = False
    """It is that of ``pretrained_checkpoint``, whose weights alone are taken."""
    huggingface: str | None = None
    """A Hugging Face folder to take the weights from, in place of a checkpoint."""
    older: tuple[Checkpoint, ...] = ()
    """Those to take in its place if it is damaged, the one written last first; none where it was asked for by name."""
    damaged: tuple[Checkpoint, ...] = ()
    """Those that were left out because they are."""

    def without_newest(self) -> Choice:
        """The next older one, because this one is damaged."""
        left_out = (*self.damaged, self.checkpoint) if self.checkpoint else self.damaged
        return evolve(self, checkpoint=self.older[0], older=self.older[1:], damaged=left_out)


class Missing(Exception):
    """A checkpoint was asked for and is not there."""

    def __init__(self, parameter: str, what: str, why: str, remedy: str) -> None:
        super().__init__(what)
        self.parameter = parameter
        """The portable name of the parameter that asks for it."""
        self.what = what
        self.why = why
        self.remedy = remedy


def choose(library: Library, wish: Wish) -> Choice:
    """The checkpoint to start from, never silently none where one was asked for.

    A run that saves where it loads, and continues itself, starts afresh while that folder is empty.

    Raises:
        Missing: the folder that is asked for has no whole checkpoint, or not the one of ``load_step``; or there are
            two to start from.
    """
    own = _own(library, wish)
    if own:
        return Choice(checkpoint=latest(own), continues=True, older=_older(own))
    if wish.load_hf:
        _refuse_second(library, wish)
        return Choice(checkpoint=None, huggingface=wish.load_hf)
    if wish.load and not (wish.pretrained_checkpoint and not _has_any(library, wish.load)):
        if wish.auto_continue and wish.save and _same(wish.load, wish.save) and not _has_any(library, wish.load):
            return Choice(checkpoint=None)
        return _found(library, wish.load, wish.load_step, "load")
    if wish.pretrained_checkpoint:
        return evolve(
            _found(library, wish.pretrained_checkpoint, wish.load_step, "pretrained_checkpoint"), pretrained=True
        )
    return Choice(checkpoint=None)


def _own(library: Library, wish: Wish) -> Sequence[Checkpoint]:
    """The whole checkpoints to go on from, without being told to load any."""
    saved = library.naming.marked(wish.save) if wish.save and (wish.own_run or wish.auto_continue) else []
    written = [item for item in saved if wish.own_run and _run_of(library, item) == wish.own_run]
    return written or (saved if wish.auto_continue else [])


def _run_of(library: Library, checkpoint: Checkpoint) -> str | None:
    try:
        sidecar = read_sidecar(checkpoint.folder / MARKER)
    except Unreadable:
        return None
    return sidecar.run_id if sidecar else None


def own_run(run_id: str, env: Mapping[str, str]) -> str | None:
    """What `Wish.own_run` is in a rank: its run, where that is started again in place."""
    return run_id if env.get("PRIMUS_ATTEMPT", "1") != "1" else None


def fresh_start(library: Library, save: str | None, *, auto_continue: bool) -> str:
    """What to tell of a start from random weights; empty where nobody may have expected another."""
    if save and (earlier := latest(library.naming.marked(save))):
        return (
            f"from random weights; auto_continue_train=true continues an earlier run from iteration {earlier.iteration}"
        )
    if not auto_continue:
        return ""
    others = "".join(f"; those of {name} are not continued" for name in _others(library, Path(save or "")))
    return f"from random weights; {save or 'save'} has no checkpoint to continue from{others}"


def _found(library: Library, folder: str, step: int | None, parameter: str) -> Choice:
    found = library.newest_checkpoint(folder) if step is None else _requested(library, folder, step)
    if found is None:
        raise _missing(library, folder, step, parameter)
    older = _older(library.naming.marked(folder)) if step is None and found.marked else ()
    return Choice(checkpoint=found, older=older)


def _older(whole: Sequence[Checkpoint]) -> tuple[Checkpoint, ...]:
    """All but the one written last."""
    return tuple(newest_first(whole)[1:])


def _requested(library: Library, folder: str, step: int) -> Checkpoint | None:
    marked = {item.iteration: item for item in library.naming.marked(folder)}
    path = library.naming.folder(folder, step)
    if step in marked:
        return marked[step]
    # Libraries take 0 for no wish. A folder without any marker of ours was written by others: their word counts.
    if step < 1 or marked or library.naming.is_saving(folder, step) or not library.holds_for_whole(path):
        return None
    return Checkpoint(folder=path, iteration=step, marked=False)


def _refuse_second(library: Library, wish: Wish) -> None:
    """A run that saves where it loads, and has saved nothing yet, has one source."""
    begins = wish.auto_continue and wish.save and wish.load and _same(wish.load, wish.save)
    if wish.pretrained_checkpoint or (wish.load and not (begins and not _has_any(library, wish.load))):
        other = "load" if wish.load else "pretrained_checkpoint"
        what = f"load_hf and {other} both say what to start from"
        raise Missing("load_hf", what, "a run starts from the weights of one", f"Remove load_hf or {other}.")


def _has_any(library: Library, folder: str) -> bool:
    return library.newest_checkpoint(folder) is not None or bool(library.naming.steps(folder))


def _same(one: str, other: str) -> bool:
    return os.path.realpath(one) == os.path.realpath(other)


def _others(library: Library, folder: Path) -> dict[str, list[int]]:
    """Other libraries whose checkpoints a folder holds, or is one of, and their iterations."""
    found: dict[str, list[int]] = {}
    for name, naming in LIBRARIES.items():
        itself = naming.iteration_of(folder.name) if folder.is_dir() else None
        steps = naming.steps(folder) if itself is None else [itself]
        if name != library.name and steps:
            found[name] = steps
    return found


def _missing(library: Library, folder: str, step: int | None, parameter: str) -> Missing:
    named = "" if step is None else f" of iteration {step}"
    steps = library.naming.steps(folder)
    what = f"there is no whole checkpoint{named} in {folder}"
    if not steps and (foreign := _foreign(library, Path(folder), parameter)):
        return Missing(parameter, what, *foreign)
    blamed = "load_step" if steps and step is not None else parameter
    return Missing(blamed, what, _why(library, folder, step, steps), _remedy(library, folder, step, parameter))


def _foreign(library: Library, folder: Path, parameter: str) -> tuple[str, str] | None:
    """Whose checkpoints a folder holds in place of this library's, and how their weights are taken."""
    for name, steps in _others(library, folder).items():
        why = f"it holds checkpoints of {name}, which {library.name} cannot read: {list_steps(steps)}"
        remedy = (
            "Export one with `primus checkpoint export RUN --to hf --output DIR`, and name DIR "
            f"with load_hf, in place of {parameter}: the weights are taken, the optimizer starts anew."
        )
        return why, remedy
    if (folder / "config.json").is_file() and any(folder.glob("*.safetensors")):
        return "it is a folder of Hugging Face", f"Name it with load_hf, in place of {parameter}."
    return None


def _why(library: Library, folder: str, step: int | None, steps: list[int]) -> str:
    whole = {item.iteration for item in library.naming.marked(folder)}
    if not Path(folder).exists():
        return "the folder does not exist"
    if not Path(folder).is_dir():
        return "it is no folder"
    if hindrance := _hindrance(folder):
        return f"it may not be read: {hindrance}"
    if whole:
        return f"whole checkpoints: {list_steps(sorted(whole))}"
    if steps and step is not None:
        return f"checkpoints: {list_steps(steps)}"
    among = f" among {list_steps(steps)}" if steps else ""
    return f"neither a marker of Primus nor {library.voucher} names a whole one{among}"


def _hindrance(folder: str) -> str:
    try:
        os.listdir(folder)
    except OSError as error:
        return error.strerror or str(error)
    return ""


def _remedy(library: Library, folder: str, step: int | None, parameter: str) -> str:
    path = Path(folder)
    away = f"Correct {parameter}{'' if step is None else ' or load_step'}, or remove them to start from random weights."
    iteration = library.naming.iteration_of(path.name)
    if iteration is not None and path.is_dir():
        return f"Name the folder above it, {path.parent}, and set load_step to {iteration}."
    if near := _nearby(library, path):
        return f"Did you mean {near}? Else remove {parameter} to start from random weights."
    return away


def _nearby(library: Library, path: Path) -> Path | None:
    """A folder with checkpoints whose name is like a missing one's, or that is just below."""
    below = path / "checkpoints"
    if path.is_dir():
        return below if library.naming.steps(below) else None
    names = [item.name for item in path.parent.iterdir()] if os.access(path.parent, os.R_OK | os.X_OK) else []
    near = difflib.get_close_matches(path.name, names, n=1)
    return path.parent / near[0] if near else None
