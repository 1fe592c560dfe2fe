"""From PyYAML's parser events to nodes.

PyYAML's own loaders are for YAML 1.1 (``no`` is false, 012 octal), keep the last of two equal keys, forget
where values stood, and expand aliases without limit. Only its parser is used here.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Any

import yaml
from attrs import evolve

from primus_core.errors import ConfigError
from primus_core.experiment import Layer, Origin
from primus_core.records import frozen
from primus_core.yamlfile.files import empty_file, read_text
from primus_core.yamlfile.nodes import Fields, Items, Node, Scalar, Unset
from primus_core.yamlfile.scalars import UNPRINTABLE, refuse_unprintable, resolve
from primus_core.yamlfile.syntax import UNSET, syntax_error

# libyaml's parser is some ten times faster; wheels have it, some distributions' builds do not.
_Loader: Any = getattr(yaml, "CSafeLoader", yaml.SafeLoader)

_DEEPEST = 32
"""Levels of nesting: no configuration has more, and what walks a tree may recurse."""
_MOST_NODES = 50_000
"""Nodes after the expansion of aliases: beyond any configuration, far below what fills the memory."""
_WORTH_REMEMBERING = 1 << 15
"""Characters of a file that is kept once it has been read."""
_TEXT_OF_A_NODE = 64
"""Characters that count as much as a node: aliases of a long text are a bomb too."""
_TAG = "tag:yaml.org,2002:"
_TAGS: dict[str, tuple[type, ...]] = {
    _TAG + "null": (type(None),),
    _TAG + "bool": (bool,),
    _TAG + "int": (int,),
    _TAG + "float": (float, int),
}
_UNUSABLE = re.compile("[\0\ud800-\udfff]")
"""Characters that no environment variable, path or UTF-8 file can hold; only escapes can bring them."""


def load(path: str, *, name: str = "", layer: Layer = "file") -> Fields:
    """Read a YAML file whose top level is a map; ``name`` is what errors and origins call it, if not its path.

    Raises:
        ConfigError: the file cannot be read, is not YAML, or not a map.
    """
    name = name or path
    text = read_text(path, name)
    return _remembered(text, name, layer) if len(text) <= _WORTH_REMEMBERING else loads(text, name, layer=layer)


def loads(text: str, file: str, *, layer: Layer = "file") -> Fields:
    """Read YAML text whose top level is a map; ``file`` is what errors and origins name.

    Raises:
        ConfigError: the text is not YAML, or not a map.
    """
    node = compose(text, file, layer)
    if isinstance(node, Fields):
        may_refer = "${" in text or "\\" in text  # an escape may stand for either sign
        return node if may_refer else evolve(node, refers=False)
    if node is None or node.value is None:
        raise empty_file(file)
    raise ConfigError(
        "the top level must be a map",
        where=str(node.origin),
        why="it is a list" if isinstance(node, Items) else "it is a single value",
        remedy="write `key: value` lines",
    )


@lru_cache(maxsize=64)
def _remembered(text: str, file: str, layer: Layer) -> Fields:
    """`loads`, for files that many experiments share. Nodes never change, and the whole text is the key."""
    return loads(text, file, layer=layer)


def compose(text: str, file: str, layer: Layer) -> Node | None:
    """The node of YAML text; None for an empty text."""
    found = UNPRINTABLE.search(text)
    if found:
        refuse_unprintable(text, f"{file}:{text.count(chr(10), 0, found.start()) + 1}")
    try:
        return _Composer(yaml.parse(text, Loader=_Loader), file, layer).document()
    except yaml.MarkedYAMLError as error:
        raise syntax_error(error, file, text) from None
    except (yaml.YAMLError, ValueError) as error:  # ValueError: an escape that is no character
        raise ConfigError("not valid YAML", where=file, why=str(error), remedy="correct its syntax") from None


@frozen
class _Anchored:
    """What an alias stands for."""

    node: Node
    nodes: int
    """Nodes in it, as far as they count."""
    unsets: int
    """How many of them are ``!unset``."""
    height: int
    """Levels below it."""


class _Composer:
    """Builds the nodes of one document, and refuses what would be ambiguous or explode."""

    def __init__(self, events: Iterator[yaml.Event], file: str, layer: Layer) -> None:
        self._events = events
        self._file = file
        self._layer = layer
        self._anchors: dict[str, _Anchored] = {}
        self._unfinished: set[str] = set()
        self._nodes = 0
        self._deepest = 0
        self._unsets = 0
        self._lists = 0
        """Lists around the node that is read."""

    def document(self) -> Node | None:
        """The only document of the stream; None for an empty stream."""
        next(self._events)
        if isinstance(next(self._events), yaml.StreamEndEvent):
            return None
        node = self._node(next(self._events), 0, None)
        next(self._events)
        event = next(self._events)
        if not isinstance(event, yaml.StreamEndEvent):
            raise self._error(event, "a second document starts", "keep one `---` document in a file")
        return node

    def _node(self, event: yaml.Event, depth: int, origin: Origin | None) -> Node:
        self._count(event, 1)
        origin = origin or self._origin(event)
        if isinstance(event, yaml.AliasEvent):
            return self._alias(event, depth, origin)
        self._reach(event, depth)
        anchor: str | None = getattr(event, "anchor", None)
        return self._anchored(event, depth, origin, anchor) if anchor else self._content(event, depth, origin)

    def _anchored(self, event: yaml.Event, depth: int, origin: Origin, anchor: str) -> Node:
        nodes, unsets, deepest = self._nodes, self._unsets, self._deepest
        self._unfinished.add(anchor)
        self._deepest = depth
        node = self._content(event, depth, origin)
        self._unfinished.discard(anchor)
        self._anchors[anchor] = _Anchored(node, self._nodes - nodes, self._unsets - unsets, self._deepest - depth)
        self._deepest = max(deepest, self._deepest)
        return node

    def _reach(self, event: yaml.Event, depth: int) -> None:
        if depth > self._deepest:
            self._deepest = depth
            if depth > _DEEPEST:
                raise self._error(event, f"nested deeper than {_DEEPEST} levels", "write a flatter structure")

    def _content(self, event: yaml.Event, depth: int, origin: Origin) -> Node:
        if isinstance(event, yaml.ScalarEvent):
            return self._unset(event, origin) if event.tag == UNSET else self._scalar(event, origin)
        if isinstance(event, yaml.SequenceStartEvent):
            self._only_tag(event, "seq")
            return self._items(depth, origin)
        if isinstance(event, yaml.MappingStartEvent):
            self._only_tag(event, "map")
            return self._fields(depth, origin)
        raise self._error(event, "unexpected end", "correct the syntax")

    def _scalar(self, event: yaml.ScalarEvent, origin: Origin) -> Scalar:
        tag = event.tag
        plain = tag is None and event.style in (None, "")
        value = resolve(event.value) if plain or tag in _TAGS else event.value
        if tag in _TAGS and not isinstance(value, _TAGS[tag]):
            raise self._error(event, f"{event.value!r} is no {tag.removeprefix(_TAG)}", "remove the tag")
        if tag is not None and tag not in ("!", _TAG + "str", *_TAGS):
            raise self._tag_error(event, tag)
        if isinstance(value, str):
            self._refuse_unusable(event)
            self._nodes += len(value) // _TEXT_OF_A_NODE
        return Scalar(value=value, text=None if isinstance(value, str) else event.value, origin=origin)

    def _refuse_unusable(self, event: yaml.ScalarEvent) -> None:
        if _UNUSABLE.search(event.value):
            raise self._error(event, "the text has an escape that is no character", "remove the escape")

    def _unset(self, event: yaml.ScalarEvent, origin: Origin) -> Unset:
        if event.value:
            raise self._error(event, f"`{UNSET}` takes no value", f"write `key: {UNSET}`")
        self._count_unsets(event, 1)
        return Unset(origin=origin)

    def _items(self, depth: int, origin: Origin) -> Items:
        nodes = []
        self._lists += 1
        while not isinstance(event := next(self._events), yaml.SequenceEndEvent):
            nodes.append(self._node(event, depth + 1, None))
        self._lists -= 1
        return Items(nodes=tuple(nodes), origin=origin)

    def _fields(self, depth: int, origin: Origin) -> Fields:
        entries: dict[str, Node] = {}
        merged: list[Fields] = []
        while not isinstance(event := next(self._events), yaml.MappingEndEvent):
            key = self._key(event, depth)
            value = self._node(next(self._events), depth + 1, self._origin(event))
            if key == "<<" and getattr(event, "style", None) in (None, ""):
                merged += self._merged(event, value)
            elif key in entries:
                raise self._duplicate(event, key, entries[key])
            else:
                entries[key] = value
        for base in merged:
            entries = {**base.entries, **entries}
        return Fields(entries=entries, origin=origin)

    def _key(self, event: yaml.Event, depth: int) -> str:
        if isinstance(event, yaml.ScalarEvent) and event.value and event.tag is None and event.anchor is None:
            self._count(event, 1)
            self._refuse_unusable(event)
            return self._readable(event, str(event.value))
        node = self._node(event, depth + 1, None)
        key = (node.text or node.value) if isinstance(node, Scalar) else None
        if not isinstance(key, str) or not key:
            raise self._error(event, "a key must be a word", "write `key: value`")
        return self._readable(event, key)

    def _readable(self, event: yaml.Event, key: str) -> str:
        if key.isprintable():
            return key
        hidden = next(char for char in key if not char.isprintable())
        raise self._error(event, f"a key has a character that cannot be seen: {hidden!a}", "type the key anew")

    def _merged(self, event: yaml.Event, value: Node) -> list[Fields]:
        """The maps that ``<<: *base`` or ``<<: [*base, *other]`` merges, the strongest first."""
        maps = list(value.nodes) if isinstance(value, Items) else [value]
        if not all(isinstance(one, Fields) for one in maps):
            raise self._error(event, "`<<` merges maps only", "write `<<: *anchor`, where the anchor is on a map")
        return [one for one in maps if isinstance(one, Fields)]

    def _alias(self, event: yaml.AliasEvent, depth: int, origin: Origin) -> Node:
        name = event.anchor
        if name in self._unfinished:
            raise self._error(event, f"`*{name}` contains itself", "remove the alias")
        if name not in self._anchors:
            raise self._error(event, f"`*{name}` has no anchor", f"put `&{name}` before the value that is meant")
        meant = self._anchors[name]
        self._count(event, meant.nodes)
        self._count_unsets(event, meant.unsets)
        self._reach(event, depth + meant.height)
        return evolve(meant.node, origin=origin)

    def _count(self, event: yaml.Event, nodes: int) -> None:
        self._nodes += nodes
        if self._nodes > _MOST_NODES:
            raise self._error(event, f"more than {_MOST_NODES} values", "use fewer aliases, or a smaller file")

    def _count_unsets(self, event: yaml.Event, unsets: int) -> None:
        self._unsets += unsets
        if unsets and self._lists:
            remedy = "write the list as it shall be: a list replaces a list"
            raise self._error(event, f"`{UNSET}` takes a key away, and a list inherits none", remedy)

    def _only_tag(self, event: yaml.SequenceStartEvent | yaml.MappingStartEvent, kind: str) -> None:
        if event.tag is not None and event.tag not in ("!", _TAG + kind):
            raise self._tag_error(event, event.tag)

    def _origin(self, event: yaml.Event) -> Origin:
        mark: Any = event.start_mark
        return Origin(file=self._file, line=mark.line + 1, column=mark.column + 1, layer=self._layer)

    def _tag_error(self, event: yaml.Event, tag: str) -> ConfigError:
        shown = tag.replace(_TAG, "!!")
        return self._error(
            event, f"the tag `{shown}` is not supported", "remove the tag: types come from the parameter"
        )

    def _duplicate(self, event: yaml.Event, key: str, first: Node) -> ConfigError:
        at = self._origin(event)
        why = f"it is set on line {first.origin.line} and again on line {at.line}"
        return ConfigError(f"`{key}` is written twice", where=str(at), why=why, remedy="keep one of them")

    def _error(self, event: yaml.Event, what: str, remedy: str) -> ConfigError:
        return ConfigError(what, where=str(self._origin(event)), remedy=remedy)
