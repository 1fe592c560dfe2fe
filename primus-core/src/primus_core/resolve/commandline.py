"""Overrides of the command line: ``key=value``."""

from __future__ import annotations

from collections.abc import Sequence

from attrs import field

from primus_core.errors import ConfigError
from primus_core.experiment import Origin
from primus_core.records import frozen
from primus_core.resolve.layout import MODULE_WORDS, SECTIONS, WORDS, experiment_tree, module_tree
from primus_core.resolve.trees import Tree, merge
from primus_core.resolve.variables import Variables, substitute
from primus_core.yamlfile import Fields, Node, parse_text

_ORIGIN = Origin(file="command line", layer="command line")
_LONGEST_PATH = 12
"""Parts of ``modules.NAME.overrides.GROUP.KEY``."""


@frozen(kw_only=True)
class CommandLine:
    """What the command line sets."""

    experiment: Tree = field(factory=dict)
    """In the layout of an experiment file."""
    module: Tree = field(factory=dict)
    """For every module, in the layout of a module."""


def parse_overrides(words: Sequence[str], variables: Variables, errors: list[ConfigError]) -> CommandLine:
    """Read ``key=value`` words; a later one wins. What is wrong is added to ``errors``.

    ``exp_name=``, ``env.NAME=``, ``direct.gpus_per_node=`` and ``modules.NAME.KEY=`` are keys of the experiment;
    ``framework=``, ``config=``, ``model=`` and every other key are of each module. ``model.KEY=`` is a parameter.
    """
    experiment: Tree = {}
    module: Tree = {}
    for word in words:
        try:
            path, node = _split(word, variables, errors)
        except ConfigError as error:
            errors.append(error)
            continue
        if path[0] in (*WORDS, "modules", *SECTIONS):
            experiment = merge(experiment, experiment_tree(_fields(path, node), errors))
        else:
            is_word = path[0] in MODULE_WORDS and len(path) == 1 and not isinstance(node, Fields)
            fields = _fields(path if is_word else ["overrides", *path], node)
            module = merge(module, module_tree("module", fields, errors))
    return CommandLine(experiment=experiment, module=module)


def _split(word: str, variables: Variables, errors: list[ConfigError]) -> tuple[list[str], Node]:
    key, equals, text = word.partition("=")
    path = key.strip().split(".")
    if not equals or not all(path) or not key.isprintable() or len(path) > _LONGEST_PATH:
        raise ConfigError(
            f"`{word[:80]}` is no override", where=str(_ORIGIN), remedy="write key=value, as in train_iters=40"
        )
    try:
        node = parse_text(text, _ORIGIN)
    except ConfigError as error:
        what = f"`{key[:80]}`: {error.what}"
        raise ConfigError(what, where=error.where, why=error.why, remedy=error.remedy) from None
    return path, substitute(node, variables, errors)


def _fields(path: Sequence[str], node: Node) -> Fields:
    """A map with one node at a path."""
    first, *others = path
    for key in reversed(others):
        node = Fields(entries={key: node}, origin=_ORIGIN)
    return Fields(entries={first: node}, origin=_ORIGIN)
