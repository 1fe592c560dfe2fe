"""Putting an experiment together from its files, presets and overrides."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from itertools import zip_longest

from attrs import evolve

from primus_core.errors import ConfigError, raise_all
from primus_core.experiment import Experiment, Leaf, Module
from primus_core.parameters import nearest
from primus_core.records import frozen
from primus_core.resolve.commandline import CommandLine, parse_overrides
from primus_core.resolve.layout import LAUNCHERS, MODULE_WORDS, NAMES, WORDS, experiment_tree, name_problem, unknown_key
from primus_core.resolve.presets import Kind, PresetPath
from primus_core.resolve.reading import Chain, File, Reader
from primus_core.resolve.trees import (
    Branch,
    Cut,
    Tree,
    flatten,
    idle_cuts,
    merge,
    present,
    section,
    taken_away,
    text_of,
)
from primus_core.yamlfile import is_utf8

PresetDirs = Callable[[str], Sequence[str]]
"""From a framework to the folders of its presets, the strongest first."""
_MOST_GUESSES = 20
"""Idle ``!unset`` after which no nearest name is searched, which takes long among many names."""


def resolve(
    path: str,
    *,
    overrides: Sequence[str] = (),
    env: Mapping[str, str],
    preset_dirs: PresetDirs,
    cwd: str,
) -> Experiment:
    """Read an experiment file and everything it refers to. Writes nothing.

    Precedence, lowest first: ``config`` preset, ``model`` preset, ``overrides`` (extended files first), command line.

    Args:
        path: the experiment file, relative to ``cwd``.
        overrides: ``key=value`` words of the command line.
        env: variables for ``${NAME}``; ``PRIMUS_STDLIB`` is the folder of Python's standard library unless it is set.
        preset_dirs: the preset folders of a framework beside the experiment's own folder.
        cwd: absolute; what relative paths of the command line and ``workspace`` are relative to.

    Raises:
        ConfigError, ErrorGroup: the experiment is wrong; independent problems come together.
    """
    _refuse_bytes(path, cwd)
    reader = Reader({"PRIMUS_STDLIB": os.path.dirname(os.__file__), **env})
    file = File(path=os.path.join(cwd, path), name=path)
    tree = _asked(reader, file, overrides)
    raise_all(_problems(tree, file))
    modules = _modules(tree, _Presets(reader=reader, experiment=file, dirs=preset_dirs, cwd=cwd))
    raise_all(reader.errors)
    return Experiment(
        file=path,
        **{key: text_of(tree[key]) for key in NAMES},
        workspace=_workspace(text_of(tree["workspace"]), env, cwd),
        modules=modules,
        env={name: _as_text(leaf) for name, leaf in flatten(section(tree, "env")).items()},
        launchers={name: flatten(section(tree, name)) for name in LAUNCHERS if section(tree, name)},
        platform=flatten(section(tree, "platform")),
        words=_words(tree),
    )


def _refuse_bytes(*paths: str) -> None:
    """A plan holds the paths, and JSON is UTF-8."""
    for path in paths:
        if not is_utf8(path):
            raise ConfigError("a path is not UTF-8 text", where=ascii(path), remedy="rename the file or its folder")


def _words(tree: Tree) -> dict[str, Leaf]:
    """The leaves of the texts that are no parameters, by their path."""
    modules = present(section(tree, "modules"))
    named = {f"modules.{name}.{key}": _leaf(module, key) for name, module in modules.items() for key in MODULE_WORDS}
    return {**{key: _leaf(tree, key) for key in WORDS}, **named}


def _asked(reader: Reader, file: File, overrides: Sequence[str]) -> Tree:
    """The experiment file on its bases, under the command line; presets are yet to be read."""
    chain = Chain(
        reader=reader,
        convert=lambda fields: experiment_tree(fields, reader.errors),
        find_base=_base,
        base_layer="extends",
    )
    tree: Tree = {}
    try:
        tree = chain.read(file, "file")
    except ConfigError as error:
        reader.errors.append(error)
        raise_all(reader.errors)
    command_line = parse_overrides(overrides, reader.variables, reader.errors)
    raise_all(reader.errors)
    return _with_command_line(tree, command_line)


def _base(file: File, name: str, place: str) -> File:
    base = file.sibling(name)
    if not os.path.exists(base.path):
        raise ConfigError(
            f"`extends` names a file that does not exist: {name}",
            where=place,
            why=f"the path is relative to the file: {base.name}",
            remedy="correct the path",
        )
    return base


def _with_command_line(tree: Tree, command_line: CommandLine) -> Tree:
    known = section(tree, "modules")
    for name in section(command_line.experiment, "modules"):
        if name not in known:
            raise unknown_key(f"modules.{name}", [f"modules.{one}" for one in known], "the experiment", "command line")
    tree = merge(tree, command_line.experiment)
    modules = section(tree, "modules")
    asked = {name: merge(module, command_line.module) for name, module in present(modules).items()}
    return {**tree, "modules": {**modules, **asked}}


def _problems(tree: Tree, file: File) -> list[ConfigError]:
    """What is missing, names that are no folder, and keys taken away that nobody set."""
    problems = [_missing(key, tree.get(key), file) for key in WORDS if not text_of(tree.get(key))]
    problems += [bad for key in NAMES if (bad := name_problem(key, text_of(tree.get(key)), tree.get(key)))]
    modules = present(section(tree, "modules"))
    if not modules:
        problems.append(_missing("modules", None, file))
    for name, module in modules.items():
        missing = [key for key in MODULE_WORDS if not text_of(module.get(key))]
        problems += [_missing(f"modules.{name}.{key}", module.get(key), file) for key in missing]
    return [*problems, *_idle({**tree, "modules": _without_overrides(section(tree, "modules"))})]


def _without_overrides(modules: Tree) -> Tree:
    """The modules without the parameters, which may take away what presets set."""
    bare: Tree = {}
    for name, module in modules.items():
        bare[name] = module
        if isinstance(module, dict) and "overrides" in module:
            cut = module["overrides"]
            bare[name] = {**module, "overrides": evolve(cut, above={}) if isinstance(cut, Cut) else {}}
    return bare


def _idle(tree: Tree) -> list[ConfigError]:
    """One error for each key that is taken away and that nothing below sets."""
    cuts = list(idle_cuts(tree))
    names = flatten(tree) if cuts else ()
    guesses = [nearest(path, names) for path, _ in cuts[:_MOST_GUESSES]]
    return [_nothing_to_unset(path, cut, meant) for (path, cut), meant in zip_longest(cuts, guesses)]


def _nothing_to_unset(path: str, cut: Cut, meant: str | None) -> ConfigError:
    return ConfigError(
        f"`!unset` takes away `{path}`, which nothing sets",
        where=str(cut.origin),
        why="no preset, file that is extended or other layer below has the key",
        remedy=f"did you mean `{meant}`?" if meant else "remove it",
    )


def _missing(key: str, value: Branch | None, file: File) -> ConfigError:
    where = str(value.origin) if isinstance(value, Leaf) else file.name
    what = f"`{key}` is {'empty' if isinstance(value, Leaf) else 'missing'}"
    return ConfigError(
        what, where=where, why="every experiment needs it", remedy=f"write `{key.rpartition('.')[2]}: ...`"
    )


@frozen(kw_only=True)
class _Presets:
    """Finds the presets of each framework."""

    reader: Reader
    experiment: File
    dirs: PresetDirs
    cwd: str

    def of(self, framework: str) -> PresetPath:
        dirs = self.dirs(framework)
        _refuse_bytes(*dirs)
        folders = [File(path=os.path.join(self.cwd, folder), name=folder) for folder in dirs]
        return PresetPath(reader=self.reader, experiment=self.experiment, folders=folders)


def _modules(tree: Tree, presets: _Presets) -> dict[str, Module]:
    modules = present(section(tree, "modules"))
    return {name: _module(name, module, presets) for name, module in modules.items()}


def _module(name: str, tree: Tree, presets: _Presets) -> Module:
    framework, config, model = (_leaf(tree, key) for key in MODULE_WORDS)
    path = presets.of(text_of(framework))
    params: Tree = {}
    presets_of: tuple[tuple[Kind, Leaf], ...] = (("modules", config), ("models", model))
    for kind, preset in presets_of:
        try:
            params = merge(params, path.read(kind, text_of(preset), str(preset.origin)))
        except ConfigError as error:
            presets.reader.errors.append(error)
    preset_params, params = params, merge(params, section(tree, "overrides"))
    presets.reader.errors.extend(_idle(params))
    return Module(
        name=name,
        framework=text_of(framework),
        framework_origin=framework.origin,
        config=text_of(config),
        model=text_of(model),
        params=flatten(params),
        unset=taken_away(preset_params, params),
    )


def _leaf(tree: Tree, key: str) -> Leaf:
    value = tree[key]
    if isinstance(value, Leaf):
        return value
    raise TypeError(f"{key} has been checked to be a scalar")


def _workspace(text: str, env: Mapping[str, str], cwd: str) -> str:
    home = env.get("HOME")
    if home and (text == "~" or text.startswith("~/")):
        text = home + text[1:]
    return os.path.normpath(os.path.join(cwd, text))


def _as_text(leaf: Leaf) -> Leaf:
    """A variable's value as a shell would have it: ``1e5`` and ``true`` as they were written."""
    return leaf if leaf.value is None else evolve(leaf, value=text_of(leaf), text=None)
