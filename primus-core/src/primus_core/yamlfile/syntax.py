"""What is said about text that is no YAML."""

from __future__ import annotations

import yaml

from primus_core.errors import ConfigError

UNSET = "!unset"
"""The tag of a key that is taken away."""


def syntax_error(error: yaml.MarkedYAMLError, file: str, text: str) -> ConfigError:
    mark = error.problem_mark or error.context_mark
    line = mark.line if mark else 0
    source = (text.splitlines()[line : line + 1] or [""])[0]
    context = f"{error.context}: " if error.context else ""
    began = error.context_mark.line if error.context_mark else line
    since = f" (begun on line {began + 1})" if began != line else ""
    return ConfigError(
        "not valid YAML",
        where=f"{file}:{line + 1}",
        why=f"{context}{error.problem}{since}\n{source[:120]}".rstrip(),
        remedy=_remedy(source),
    )


def _remedy(source: str) -> str:
    if "\t" in source[: len(source) - len(source.lstrip())] or source.lstrip(" ").startswith("\t"):
        return "indent with spaces: the line starts with a tab"
    if f"{UNSET}}}" in source or f"{UNSET}," in source:
        return f"put a blank after `{UNSET}`, or write the map on lines of its own"
    if "${" in source:
        return "put quotes around a value with `${...}` inside brackets or with a colon and a space"
    return "correct the line, or put quotes around its value"
