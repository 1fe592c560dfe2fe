"""Values of the command line and of environment variables."""

from __future__ import annotations

from attrs import evolve

from primus_core.errors import ConfigError
from primus_core.experiment import Origin, Value
from primus_core.yamlfile.compose import compose
from primus_core.yamlfile.nodes import Fields, Items, Node, Scalar, Unset
from primus_core.yamlfile.scalars import scalar
from primus_core.yamlfile.syntax import UNSET


def parse_scalar(text: str) -> Value:
    """The value of a command-line word: a scalar, or a list or map in brackets (``[1, 2]``, ``{a: 1}``).

    ``!unset`` is null here.

    Raises:
        ConfigError: a bracket or quote at the start is not closed.
    """
    return parse_text(text, Origin(file="command line", layer="command line")).value


def parse_text(text: str, origin: Origin, variables: tuple[str, ...] = ()) -> Node:
    """Like `parse_scalar`, but with the text and with every node at the given origin, from the given variables."""
    if text.strip() == UNSET:
        return Unset(origin=origin)
    if not text.lstrip().startswith(("[", "{", '"', "'")):
        return evolve(scalar(text, origin), variables=variables)
    try:
        node = compose(text, origin.file, origin.layer)
    except ConfigError as error:
        raise ConfigError(error.what, where=str(origin), why=error.why, remedy=error.remedy) from None
    moved = _moved(node, origin, variables) if node else scalar("", origin)
    return evolve(moved, written=text) if isinstance(moved, (Fields, Items)) else moved


def _moved(node: Node, origin: Origin, variables: tuple[str, ...]) -> Node:
    if isinstance(node, Items):
        return Items(nodes=tuple(_moved(child, origin, variables) for child in node.nodes), origin=origin)
    if isinstance(node, Fields):
        entries = {key: _moved(child, origin, variables) for key, child in node.entries.items()}
        return Fields(entries=entries, origin=origin)
    return evolve(node, origin=origin, variables=variables) if isinstance(node, Scalar) else evolve(node, origin=origin)
