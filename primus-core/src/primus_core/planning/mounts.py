"""Which of this host's files a run reads and writes: what a container has to have, under the same paths."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Mapping

from primus_core.experiment import Experiment, Module, Value
from primus_core.plan import Mount, Task

_WRITTEN = ("save",)
_READ = ("load", "load_hf", "pretrained_checkpoint", "backend_path", "tokenizer_model")
"""Portable parameters and core's that name files; relative ones too."""
_FEW = 8
"""Files of one folder that are named one by one; of more, the folder is."""
_MOST_LINKS = 1000
_OF_A_PACKAGE = re.compile(r"/primus_\w+/presets/")


def experiment_mounts(
    experiment: Experiment, module: Module, prepare: Iterable[Task], native: Mapping[str, Value], cwd: str
) -> tuple[Mount, ...]:
    """The files of a training: experiment and presets, data, tokenizer, checkpoints, and the workspace to write in.

    Args:
        prepare: tasks before the training, whose arguments name data.
        native: the library's parameters; an absolute path in one of them is a file that the run uses.
        cwd: absolute; what relative paths are relative to.
    """
    given = {key: leaf.value for key, leaf in module.params.items()}
    read = [*_own_files(experiment, module, cwd), *_data(prepare), *_named(given, _READ, cwd)]
    written = [experiment.workspace, *_named(given, _WRITTEN, cwd)]
    others = [path for path in _absolute([*native.values(), *given.values()]) if path not in (*read, *written)]
    return tuple(_mounts(_few(read), [*written, *filter(os.path.isdir, others)], filter(os.path.isfile, others)))


def script_mounts(path: str, workspace: str) -> tuple[Mount, ...]:
    """The files of a program: its folder, whose modules it may import, and the workspace to write in."""
    return tuple(_mounts([os.path.dirname(path)], [workspace], []))


def _mounts(read: Iterable[str], written: Iterable[str], also_read: Iterable[str]) -> Iterator[Mount]:
    """What is written may be made by the run; what is read is there."""
    writable = dict.fromkeys(written)
    yield from (Mount(path=path, writable=True) for path in writable)
    there = (target for path in (*read, *also_read) if os.path.exists(path) for target in _with_targets(path))
    yield from (Mount(path=path) for path in dict.fromkeys(there) if path not in writable)


def _own_files(experiment: Experiment, module: Module, cwd: str) -> Iterator[str]:
    """The experiment's file with what it extends, and presets of the user's own."""
    names = {experiment.file: None, **{leaf.origin.file: None for leaf in module.params.values() if leaf.origin.line}}
    for name in names:
        path = os.path.join(cwd, name)
        if not _OF_A_PACKAGE.search(path) and os.path.isfile(path):
            yield os.path.normpath(path)


def _data(prepare: Iterable[Task]) -> Iterator[str]:
    """Data files, an indexed one as both of its files, and the tokenizer."""
    for task in prepare:
        splits, tokenizer = task.arguments.get("splits"), task.arguments.get("tokenizer")
        for sources in splits.values() if isinstance(splits, dict) else ():
            for source in sources if isinstance(sources, list) else ():
                yield from _of_source(source) if isinstance(source, dict) else ()
        model = tokenizer.get("model") if isinstance(tokenizer, dict) else None
        if isinstance(model, str) and os.path.isabs(model):
            yield model


def _of_source(source: Mapping[str, Value]) -> Iterator[str]:
    files = source.get("files")
    ends = (".bin", ".idx") if source.get("kind") == "indexed" else ("",)
    yield from (f"{path}{end}" for path in (files if isinstance(files, list) else []) for end in ends)


def _named(given: Mapping[str, Value], names: Iterable[str], cwd: str) -> Iterator[str]:
    """The files that parameters name; a hub's id or an address is none."""
    for name in names:
        value = given.get(name)
        if isinstance(value, str) and value and "://" not in value:
            path = os.path.normpath(os.path.join(cwd, value))
            if name in _WRITTEN or os.path.exists(path):
                yield path


def _absolute(values: Iterable[Value]) -> Iterator[str]:
    for value in values:
        if isinstance(value, list):
            yield from _absolute(value)
        elif isinstance(value, dict):
            yield from _absolute(value.values())
        elif isinstance(value, str) and value.startswith("/") and "\n" not in value and value.strip("/"):
            yield os.path.normpath(value)


def _few(paths: Iterable[str]) -> list[str]:
    """The paths; where they are many of one folder, the folder."""
    by_folder: dict[str, list[str]] = {}
    for path in dict.fromkeys(paths):
        by_folder.setdefault(os.path.dirname(path), []).append(path)
    return [one for folder, found in by_folder.items() for one in (found if len(found) <= _FEW else [folder])]


def _with_targets(path: str) -> Iterator[str]:
    """A path, and what it and the links in it lead to: the files of a hub's cache are links to another folder."""
    yield path
    links = [path]
    if os.path.isdir(path):
        with os.scandir(path) as entries:
            links += [one.path for _, one in zip(range(_MOST_LINKS), entries, strict=False) if one.is_symlink()]
    for link in links:
        target = os.path.realpath(link)
        if target != link and os.path.exists(target) and not target.startswith(f"{path}/"):
            yield target
