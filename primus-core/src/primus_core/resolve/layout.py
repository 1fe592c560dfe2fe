"""What an experiment file may contain, and where."""

from __future__ import annotations

import re
from collections.abc import Collection, Iterator

from primus_core.errors import ConfigError
from primus_core.experiment import Leaf
from primus_core.parameters import nearest
from primus_core.resolve.trees import Branch, Tree, branch, parameters
from primus_core.yamlfile import Fields, Items, Node, Scalar, Unset

NAMES = ("work_group", "user_name", "exp_name")
"""Required keys whose values become folders."""
WORDS = (*NAMES, "workspace")
"""Required keys with a text."""
LAUNCHERS = ("direct", "ssh", "container", "slurm")
"""Sections with the options of launchers."""
SECTIONS = ("env", "platform", *LAUNCHERS)
TOP = (*WORDS, "modules", *SECTIONS)
MODULE_WORDS = ("framework", "config", "model")
MODULES = ("pre_trainer", "sft_trainer", "post_trainer")
"""Names of modules that commands look for; others may be used too."""
MODULE = (*MODULE_WORDS, "overrides")

_VARIABLE = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")


def experiment_tree(fields: Fields, errors: list[ConfigError]) -> Tree:
    """The content of one experiment file; what does not belong there is added to ``errors``."""
    tree: Tree = {}
    for key, node in _known(fields, (*TOP, "extends"), "an experiment", errors):
        if isinstance(node, Unset):
            tree[key] = branch(node)
        elif key in WORDS:
            tree.update(_word(key, node, errors))
        elif key == "modules":
            tree[key] = _modules(_section(key, node, errors), errors)
        elif key == "env":
            tree[key] = _env(_section(key, node, errors), errors)
        else:
            tree[key] = parameters(_section(key, node, errors), None, errors)
    return tree


def module_tree(path: str, node: Node, errors: list[ConfigError]) -> Tree:
    """The content of one module, which errors call ``path``; what does not belong there is added to ``errors``."""
    tree: Tree = {}
    for key, child in _known(_section(path, node, errors), MODULE, "a module", errors):
        if isinstance(child, Unset):
            tree[key] = branch(child)
        elif key == "overrides":
            layer = child.origin.layer if child.origin.layer == "command line" else "overrides"
            tree[key] = parameters(_section(f"{path}.overrides", child, errors), layer, errors)
        else:
            tree.update(_word(key, child, errors))
    return tree


def _modules(fields: Fields, errors: list[ConfigError]) -> Tree:
    for name, node in fields.entries.items():
        meant = _meant_module(name)
        if bad_name(name):
            errors.append(_not_a_name("a module's name", name, str(node.origin)))
        elif meant:
            errors.append(unknown_key(f"modules.{name}", [f"modules.{meant}"], "the experiment", str(node.origin)))
    return {
        name: branch(node) if isinstance(node, Unset) else module_tree(f"modules.{name}", node, errors)
        for name, node in fields.entries.items()
    }


def _meant_module(name: str) -> str | None:
    """The known name that a name is a misspelling of; ``pre_trainer_2`` is a name of its own."""
    if name.startswith(MODULES):
        return None
    from difflib import get_close_matches  # here: for mistakes alone

    folded = {one.replace("_", ""): one for one in MODULES}
    found = get_close_matches(name.lower().replace("_", "").replace("-", ""), folded, n=1, cutoff=0.88)
    return folded[found[0]] if found else None


def _env(fields: Fields, errors: list[ConfigError]) -> Tree:
    tree: Tree = {}
    for name, node in fields.entries.items():
        problem = _env_problem(name, node)
        if problem:
            errors.append(problem)
        else:
            tree[name] = branch(_as_written(node))
    return tree


def _env_problem(name: str, node: Node) -> ConfigError | None:
    """What is wrong with an environment variable of the ranks."""
    where = str(node.origin)
    if not _VARIABLE.fullmatch(name):
        return ConfigError(
            f"`{name}` is no name of an environment variable", where=where, remedy="use letters, digits, _"
        )
    if not isinstance(_as_written(node), (Scalar, Unset)):
        return ConfigError(f"`env.{name}` takes text", where=where, remedy="write one value, in quotes if need be")
    return None


def _as_written(node: Node) -> Node:
    """The text that a list or map of the command line or of a variable was: every text of a variable is one text."""
    if isinstance(node, (Items, Fields)) and node.written:
        return Scalar(value=node.written, origin=node.origin, variables=node.variables)
    return node


def bad_name(name: str) -> bool:
    """Whether a name cannot be one folder of a path."""
    return (
        name in ("", ".", "..")
        or "/" in name
        or name != name.strip()
        or not name.isprintable()
        or len(name.encode()) > 200
    )


def name_problem(key: str, name: str, value: Branch | None) -> ConfigError | None:
    """What is wrong with a name that becomes a folder of the workspace. Empty is not judged."""
    where = str(value.origin) if isinstance(value, Leaf) else ""
    return _not_a_name(f"`{key}`", name, where) if name and bad_name(name) else None


def _not_a_name(what: str, name: str, where: str) -> ConfigError:
    return ConfigError(
        f"{what} cannot be {name!r}",
        where=where,
        why="it names one folder inside the workspace",
        remedy="use a name without slashes and blanks at its ends",
    )


def unknown_key(key: str, known: Collection[str], owner: str, where: str) -> ConfigError:
    meant = nearest(key, known)
    guess = f"did you mean `{meant}`?" if meant else f"{owner} has the keys {', '.join(known)}"
    if not meant and "overrides" in known:
        guess += f"; a parameter belongs below `overrides`, as in `overrides.{key}`"
    return ConfigError(f"unknown key `{key}`", where=where, why=f"{owner} has no such key", remedy=guess)


def _known(fields: Fields, known: Collection[str], owner: str, errors: list[ConfigError]) -> Iterator[tuple[str, Node]]:
    for key, node in fields.entries.items():
        if key in known:
            yield key, node
        else:
            errors.append(unknown_key(key, known, owner, str(node.origin)))


def _word(key: str, node: Node, errors: list[ConfigError]) -> Tree:
    if isinstance(node, Scalar):
        return {key: branch(node)}
    errors.append(ConfigError(f"`{key}` takes text", where=str(node.origin), remedy=f"write `{key}: NAME`"))
    return {}


def _section(key: str, node: Node, errors: list[ConfigError]) -> Fields:
    if isinstance(node, Fields):
        return node
    if node.value is not None:
        errors.append(
            ConfigError(f"`{key}` takes a map", where=str(node.origin), remedy="write `key: value` lines below it")
        )
    return Fields(origin=node.origin)
