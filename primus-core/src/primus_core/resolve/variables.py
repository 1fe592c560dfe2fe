"""``${NAME}`` and ``${NAME:default}`` in scalars."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import NoReturn

from attrs import evolve

from primus_core.errors import ConfigError
from primus_core.experiment import Origin
from primus_core.yamlfile import Fields, Items, Node, Scalar, parse_text, refuse_unprintable, scalar

_SIGN = re.compile(r"\$\$\{|\$\{|[{}]")
_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_DEEPEST = 16
"""Levels of references and braces inside defaults."""
_LONGEST = 1 << 20
"""Characters of one value: a text can refer to one long variable many thousand times."""
_MOST = 1 << 22
"""Characters of all values with references in one experiment."""


class Variables:
    """The environment, as far as one experiment may use it."""

    def __init__(self, values: Mapping[str, str]) -> None:
        self.values = values
        self._left = _MOST

    @property
    def spent(self) -> bool:
        return self._left < 0

    def spend(self, characters: int) -> None:
        self._left -= characters


def substitute(node: Node, variables: Variables, errors: list[ConfigError]) -> Node:
    """The node with every reference replaced; unset variables and broken references are added to ``errors``.

    A scalar that is one reference becomes what its text would be on the command line: a number, null, a list in
    brackets; but an empty variable is empty text, not null. A reference inside a text is replaced by text.
    ``$${`` stands for ``${``.
    """
    if isinstance(node, Scalar):
        if not isinstance(node.value, str) or "${" not in node.value or variables.spent:
            return node
        try:
            return _Reading(node, node.value, variables).node()
        except ConfigError as error:
            errors.append(error)
            return node
    if isinstance(node, Fields):
        entries = {key: substitute(child, variables, errors) for key, child in node.entries.items()}
        return evolve(node, entries=entries)
    if isinstance(node, Items):
        return evolve(node, nodes=tuple(substitute(child, variables, errors) for child in node.nodes))
    return node


class _Reading:
    """Goes once through a text, from left to right."""

    def __init__(self, place: Scalar, text: str, variables: Variables) -> None:
        self._origin = place.origin
        self._text = text
        self._budget = variables
        self._variables = variables.values
        self._at = 0
        self._alone = False
        """The whole text is one reference."""
        self._used: dict[str, None] = {}

    def node(self) -> Node:
        replaced = self._words(0, wanted=True)
        self._budget.spend(len(self._text) + len(replaced))
        if self._budget.spent:
            self._refuse(f"the variables bring more than {_MOST} characters to the experiment", "use them less often")
        used = tuple(self._used)
        if not self._alone:
            return Scalar(value=replaced, origin=self._origin, variables=used)
        if replaced:
            return _typed(replaced, self._origin, used)
        is_set = any(name in self._variables for name in used)
        return Scalar(value="" if is_set else None, text=None if is_set else "", origin=self._origin, variables=used)

    def _words(self, depth: int, *, wanted: bool) -> str:
        """The text up to the brace that closes it, or, outside of references, all of it."""
        if depth > _DEEPEST:
            self._refuse(f"braces inside braces, {_DEEPEST} levels deep", "write a shorter default")
        pieces: list[str] = []
        size = 0
        while found := _SIGN.search(self._text, self._at):
            pieces.append(self._text[self._at : found.start()])
            self._at = found.end()
            if depth and found.group() == "}":
                return "".join(pieces)
            pieces.append(self._sign(found, depth, wanted))
            size += len(pieces[-1])
            if size > _LONGEST:
                self._refuse(f"the variables make it longer than {_LONGEST} characters", "refer to them less often")
        if depth:
            self._refuse("a brace is not closed", "write ${NAME} or ${NAME:default}; `$${` stands for `${`")
        return "".join([*pieces, self._text[self._at :]])

    def _sign(self, found: re.Match[str], depth: int, wanted: bool) -> str:
        sign = found.group()
        if sign == "${":
            value = self._reference(depth + 1, wanted)
            self._alone = not depth and not found.start() and self._at == len(self._text)
            return value
        braces = sign.removeprefix("$")
        return f"{braces}{self._words(depth + 1, wanted=wanted)}}}" if depth else braces

    def _reference(self, depth: int, wanted: bool) -> str:
        """What a reference stands for, whose ``${`` has been read."""
        name = self._name()
        value = self._variables.get(name)
        if wanted:
            self._used.setdefault(name)
        if self._text[self._at] == ":":
            self._at += 2 if self._text.startswith(":-", self._at) else 1
            default = self._words(depth, wanted=wanted and value is None)
        else:
            self._at += 1
            if wanted and value is None:
                self._unset(name)
            default = ""
        if value is None:
            return default
        refuse_unprintable(value, f"{self._origin}, ${{{name}}}")
        return value

    def _name(self) -> str:
        found = _NAME.match(self._text, self._at)
        after = self._text[found.end() : found.end() + 2] if found else ""
        if not found or after[:1] not in ("}", ":") or after in (":=", ":?", ":+"):
            self._refuse("a `${` that is no reference", "write ${NAME} or ${NAME:default}; `$${` stands for `${`")
        self._at = found.end()
        return found.group()

    def _unset(self, name: str) -> NoReturn:
        raise ConfigError(
            f"the environment variable {name} is not set",
            where=str(self._origin),
            why=f"`{self._text[:80]}` needs it",
            remedy=f"export {name}=..., or write a default: ${{{name}:default}}",
        )

    def _refuse(self, what: str, remedy: str) -> NoReturn:
        raise ConfigError(f"`{self._text[:80]}`: {what}", where=str(self._origin), remedy=remedy)


def _typed(text: str, origin: Origin, variables: tuple[str, ...]) -> Node:
    """The value that a text has where it stands alone. Brackets that hold no list or map are text."""
    if text.startswith(("[", "{")) and text.endswith(("]", "}")):
        try:
            return parse_text(text, origin, variables)
        except ConfigError:
            pass
    return evolve(scalar(text, origin), variables=variables)
