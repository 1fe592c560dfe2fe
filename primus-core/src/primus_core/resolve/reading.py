"""Reading a file with everything that it extends."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from functools import cached_property

from attrs import evolve

from primus_core.errors import ConfigError
from primus_core.experiment import Layer
from primus_core.records import frozen
from primus_core.resolve.trees import Tree, merge
from primus_core.resolve.variables import Variables, substitute
from primus_core.yamlfile import Fields, Items, Node, Scalar, Unset, load

_MOST_FILES = 100


@frozen(kw_only=True)
class File:
    """A configuration file."""

    path: str
    """To open it."""
    name: str
    """As the user would name it."""

    @cached_property
    def identity(self) -> tuple[int, int] | str:
        """Equal for two names of one file."""
        try:
            found = os.stat(self.path)
        except OSError:
            return os.path.realpath(self.path)
        return found.st_dev, found.st_ino

    def sibling(self, name: str) -> File:
        """The file that a path in this file means."""
        shown = os.path.normpath(os.path.join(os.path.dirname(self.name), name))
        return File(path=os.path.join(os.path.dirname(self.path), name), name=shown)


FindBase = Callable[[File, str, str], File]
"""``(file, name, place)``: the file that ``extends: name`` at a place in a file means."""


class Reader:
    """Reads files for one experiment and collects what is wrong in them."""

    def __init__(self, variables: Mapping[str, str]) -> None:
        self.variables = Variables(variables)
        self._read = 0
        self.errors: list[ConfigError] = []
        """Problems that did not hinder reading on."""

    def read(self, file: File, layer: Layer) -> Fields:
        """One file, its variables substituted.

        Raises:
            ConfigError: the file cannot be read or is not YAML.
        """
        self._read += 1
        if self._read > _MOST_FILES:
            raise ConfigError(
                f"more than {_MOST_FILES} files",
                where=file.name,
                why="`extends` leads to them",
                remedy="extend fewer files",
            )
        fields = load(file.path, name=file.name, layer=layer)
        if not fields.refers:
            return fields
        entries = {key: substitute(node, self.variables, self.errors) for key, node in fields.entries.items()}
        return evolve(fields, entries=entries)


@frozen(kw_only=True)
class Chain:
    """How one kind of file is read together with its bases."""

    reader: Reader
    convert: Callable[[Fields], Tree]
    """From the content of one file, without ``extends``, to a tree."""
    find_base: FindBase
    base_layer: Layer

    def read(self, file: File, layer: Layer, above: tuple[File, ...] = ()) -> Tree:
        """The file on top of everything that it extends, later bases on top of earlier ones.

        Raises:
            ConfigError: a file cannot be read, or extends itself.
        """
        fields = self.reader.read(file, layer)
        tree: Tree = {}
        for name, place in _bases(fields):
            base = self.find_base(file, name, place)
            _refuse_cycle((*above, file), base, place)
            tree = merge(tree, self.read(base, self.base_layer, (*above, file)))
        own = {key: node for key, node in fields.entries.items() if key != "extends"}
        return merge(tree, self.convert(evolve(fields, entries=own)))


def _bases(fields: Fields) -> list[tuple[str, str]]:
    """Name and place of each entry of ``extends``."""
    node = fields.entries.get("extends")
    if node is None or (node.value is None and not isinstance(node, Unset)):
        return []
    return [(_name(one), str(one.origin)) for one in (node.nodes if isinstance(node, Items) else (node,))]


def _name(node: Node) -> str:
    if isinstance(node, Scalar) and isinstance(node.value, str) and node.value:
        return node.value
    raise ConfigError(
        "`extends` takes a file name or a list of them", where=str(node.origin), remedy="write `extends: base.yaml`"
    )


def _refuse_cycle(chain: tuple[File, ...], base: File, place: str) -> None:
    known = [file.identity for file in chain]
    if base.identity in known:
        circle = [*chain[known.index(base.identity) :], base]
        raise ConfigError(
            "`extends` goes in a circle",
            where=place,
            why=" -> ".join(file.name for file in circle),
            remedy="take one of these `extends` away",
        )
