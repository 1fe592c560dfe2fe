"""Options of an engine that the user gave as words of its own."""

from __future__ import annotations

from collections.abc import Iterator, Sequence


def values_of(words: Sequence[str], option: str) -> Iterator[str]:
    """The values of an option, each time that it is given: ``--option=value`` or ``--option value``."""
    spelled = f"--{option}" if len(option) > 1 else f"-{option}"
    for number, word in enumerate(words):
        name, equals, value = word.partition("=")
        if name == spelled:
            yield value if equals else next(iter(words[number + 1 : number + 2]), "")


def gives(words: Sequence[str], *options: str) -> bool:
    """Whether one of the options is among the words."""
    return any(True for option in options for _ in values_of(words, option))
