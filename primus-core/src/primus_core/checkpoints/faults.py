"""Why a checkpoint could not be looked at."""

from __future__ import annotations


class Unreadable(Exception):
    """A checkpoint's file is missing, damaged, or of no known format. The text says which."""


class Forbidden(Unreadable):
    """A pickle names something that no checkpoint needs: reading it with the library would run foreign code."""

    def __init__(self, name: str) -> None:
        self.name = "".join(letter if letter.isprintable() else "?" for letter in name[:200])
        super().__init__(f"it names `{self.name}`")


class Unknown(Unreadable):
    """Nothing is wrong as far as can be seen: it is too large, or too old, to be looked at here."""
