"""``${NAME}`` and ``${NAME:default}`` in the scalars of a file."""

from __future__ import annotations

import re
from collections.abc import Mapping

from attrs import evolve

from primus_core.errors import ConfigError
from primus_core.yamlfile import Fields, Items, Node, Scalar, scalar

_REFERENCE = re.compile(r"\$\{([A-Za-z_][A-Za-z0-9_]*)(?::([^{}]*))?\}")


def substitute(node: Node, variables: Mapping[str, str], errors: list[ConfigError]) -> Node:
    """The node with every reference replaced; unset variables are added to ``errors``.

    A scalar that is one reference takes the type of what it stands for (``${STEPS:50}`` is a number); a
    reference inside a text is replaced by text.
    """
    if isinstance(node, Fields):
        entries = {key: substitute(child, variables, errors) for key, child in node.entries.items()}
        return evolve(node, entries=entries)
    if isinstance(node, Items):
        return evolve(node, nodes=tuple(substitute(child, variables, errors) for child in node.nodes))
    if not isinstance(node.value, str) or "${" not in node.value:
        return node
    try:
        return _substituted(node, node.value, variables)
    except ConfigError as error:
        errors.append(error)
        return node


def _substituted(node: Scalar, text: str, variables: Mapping[str, str]) -> Scalar:
    if "${" in _REFERENCE.sub("", text):
        raise ConfigError(
            f"`{text[:80]}` has a `${{` that is no reference to a variable",
            where=str(node.origin),
            remedy="write ${NAME} or ${NAME:default}, without braces in the default",
        )
    replaced = _REFERENCE.sub(lambda found: _lookup(found, node, variables), text)
    typed = scalar(replaced, node.origin)
    return typed if _REFERENCE.fullmatch(text) else Scalar(value=replaced, origin=node.origin)


def _lookup(found: re.Match[str], node: Scalar, variables: Mapping[str, str]) -> str:
    name, default = found.groups()
    if name in variables:
        return variables[name]
    if default is None:
        raise ConfigError(
            f"the environment variable {name} is not set",
            where=str(node.origin),
            why=f"`{found.string[:80]}` needs it",
            remedy=f"export {name}=..., or write a default: ${{{name}:default}}",
        )
    return str(default)
