"""Nested maps of leaves: how layers are put on each other."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypeAlias

from attrs import evolve, field

from primus_core.errors import ConfigError
from primus_core.experiment import Layer, Leaf, Origin
from primus_core.parameters import owner_of
from primus_core.records import frozen
from primus_core.yamlfile import Fields, Node, Unset

_MOST_DOTS = 8


@frozen(kw_only=True)
class Cut:
    """Takes away what lies below: ``key: !unset``."""

    origin: Origin
    above: Tree = field(factory=dict)
    """What a stronger layer puts there again."""
    hit: bool = False
    """Whether something was there to take away."""


Tree: TypeAlias = "dict[str, Tree | Leaf | Cut]"
"""Maps by key; a list, a scalar and an empty map are leaves."""
Branch: TypeAlias = "Tree | Leaf | Cut"


def branch(node: Node, layer: Layer | None = None) -> Branch:
    """A node as a tree; ``layer`` replaces the layer of its origins."""
    if isinstance(node, Fields) and node.entries:
        return {key: branch(child, layer) for key, child in node.entries.items()}
    at = node.origin
    origin = Origin(file=at.file, line=at.line, column=at.column, layer=layer) if layer else at
    if isinstance(node, Unset):
        return Cut(origin=origin)
    return Leaf(value=node.value, text=node.text, origin=origin, variables=node.variables)


def parameters(fields: Fields, layer: Layer | None, errors: list[ConfigError]) -> Tree:
    """A map of parameters as a tree in which ``a.b: 1`` is the same as ``a: {b: 1}``.

    A parameter that is set in both spellings is added to ``errors``.
    """
    tree: Tree = {}
    for key, node in fields.entries.items():
        if key.count(".") > _MOST_DOTS:
            where = str(node.origin)
            errors.append(ConfigError(f"`{key[:80]}` has too many dots", where=where, remedy="correct the name"))
            continue
        value: Branch
        value = parameters(node, layer, errors) if isinstance(node, Fields) and node.entries else branch(node, layer)
        if value or not isinstance(value, dict):  # a map of which nothing is left has had its errors
            _add(tree, key, value, errors)
    return tree


def _add(tree: Tree, path: str, value: Branch, errors: list[ConfigError]) -> None:
    """Put a value at a dotted path of a tree that nobody else has."""
    if path not in tree and "." not in path:
        tree[path] = value
        return
    *groups, last = path.split(".")
    for depth, group in enumerate(groups):
        inner = tree.setdefault(group, {})
        if not isinstance(inner, dict):
            errors.append(_twice(".".join(groups[: depth + 1]), inner, _some_leaf(value)))
            return
        tree = inner
    if last in tree:
        errors.extend(_clashes({last: tree[last]}, {last: value}, "".join(f"{group}." for group in groups)))
        value = _over(tree[last], value)
    tree[last] = value


def merge(base: Tree, top: Tree) -> Tree:
    """Both trees; where they disagree, the leaf of ``top``, which remembers what it overrode; a cut leaves nothing."""
    merged = dict(base)
    for key, value in top.items():
        merged[key] = _over(merged[key], value) if key in merged else value
    return merged


def flatten(tree: Tree, prefix: str = "") -> dict[str, Leaf]:
    """The leaves by dotted path."""
    return dict(_leaves(tree, prefix))


def section(tree: Tree, key: str) -> Tree:
    """The map at a key; empty where there is none."""
    value = tree.get(key, {})
    if isinstance(value, Cut):
        return value.above
    return {} if isinstance(value, Leaf) else value


def present(tree: Tree) -> dict[str, Tree]:
    """The maps in a tree that are not taken away."""
    return {key: section(tree, key) for key, value in tree.items() if not isinstance(value, Cut) or value.above}


def idle_cuts(tree: Tree, prefix: str = "") -> Iterator[tuple[str, Cut]]:
    """The cuts that took nothing away, by dotted path."""
    for key, value in tree.items():
        if isinstance(value, dict):
            yield from idle_cuts(value, f"{prefix}{key}.")
        elif isinstance(value, Cut):
            yield from idle_cuts(value.above, f"{prefix}{key}.") if value.hit else ((prefix + key, value),)


def taken_away(base: Tree, tree: Tree) -> dict[str, Origin]:
    """The leaves of ``base`` that cuts in the tree made of it took away for good, with the places of the cuts."""
    cuts = dict(_cuts(tree))
    if not cuts:
        return {}
    left = flatten(tree)
    return {path: cuts[cut].origin for path in flatten(base) if path not in left and (cut := owner_of(path, cuts))}


def _cuts(tree: Tree, prefix: str = "") -> Iterator[tuple[str, Cut]]:
    for key, value in tree.items():
        if isinstance(value, Cut):
            yield prefix + key, value
        if not isinstance(value, Leaf):
            yield from _cuts(value.above if isinstance(value, Cut) else value, f"{prefix}{key}.")


def text_of(value: Branch | None) -> str:
    """The text of a scalar as it was written; empty for null and for what is no scalar."""
    if not isinstance(value, Leaf) or value.value is None:
        return ""
    return value.text if isinstance(value.text, str) else str(value.value)


def _leaves(tree: Tree, prefix: str) -> Iterator[tuple[str, Leaf]]:
    for key, value in tree.items():
        if isinstance(value, Leaf):
            yield prefix + key, value
        else:
            yield from _leaves(value.above if isinstance(value, Cut) else value, f"{prefix}{key}.")


def _over(base: Branch, top: Branch) -> Branch:
    if isinstance(top, Cut):
        return evolve(top, hit=top.hit or not isinstance(base, Cut) or base.hit or bool(base.above))
    if isinstance(base, Cut):
        return top if isinstance(top, Leaf) else evolve(base, above=merge(base.above, top))
    if isinstance(base, Leaf):
        if isinstance(top, Leaf):
            return _leaf_over(base, top)
        return top
    if isinstance(top, Leaf):
        return base if top.value == {} else top
    return merge(base, top)


def _leaf_over(base: Leaf, top: Leaf) -> Leaf:
    alone = evolve(base, overrode=()) if base.overrode else base
    return Leaf(
        value=top.value,
        origin=top.origin,
        overrode=(*top.overrode, alone, *base.overrode),
        text=top.text,
        variables=top.variables,
    )


def _clashes(one: Tree, other: Tree, prefix: str = "") -> Iterator[ConfigError]:
    for key in [key for key in other if key in one]:
        first, second = one[key], other[key]
        if isinstance(first, dict) and isinstance(second, dict):
            yield from _clashes(first, second, f"{prefix}{key}.")
        else:
            yield _twice(prefix + key, _some_leaf(first), _some_leaf(second))


def _some_leaf(value: Branch) -> Leaf | Cut:
    while isinstance(value, dict):
        value = next(iter(value.values()))
    return value


def _twice(path: str, first: Leaf | Cut, second: Leaf | Cut) -> ConfigError:
    return ConfigError(
        f"`{path}` is written twice",
        where=str(second.origin),
        why=f"it is set on line {first.origin.line} and again on line {second.origin.line}",
        remedy="keep one of them",
    )
