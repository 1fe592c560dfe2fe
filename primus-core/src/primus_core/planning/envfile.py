"""Files of environment variables, as ``--env_file`` takes them: ``KEY=VALUE`` lines.

The syntax is the one that Docker documents for environment files
(https://docs.docker.com/compose/how-tos/environment-variables/variable-interpolation/#env-file-syntax), with one
difference: a ``$`` is a ``$``. `docker run --env-file` knows no quotes at all, there ``A="x"`` has them in its value.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping

from attrs import field

from primus_core.errors import ConfigError
from primus_core.records import frozen

_NAME = re.compile(r"[A-Za-z_][A-Za-z0-9_]*")
_QUOTED = re.compile(r"""'(?:[^'\\]|\\.)*'|"(?:[^"\\]|\\.)*\"""")
_COMMENT = re.compile(r"\s+#.*")
_ESCAPE = re.compile(r"\\(.)")
_MEANT = {"n": "\n", "r": "\r", "t": "\t", '"': '"', "\\": "\\", "'": "'", "$": "$"}
_REFERENCE = re.compile(r"\$\{?[A-Za-z_]")


@frozen(kw_only=True)
class EnvFile:
    """What one file sets."""

    values: Mapping[str, str] = field(factory=dict)
    references: tuple[str, ...] = ()
    """``file:line`` of each value outside single quotes that looks like a reference to a variable and is none."""


def read_env_file(path: str, shell: Mapping[str, str]) -> EnvFile:
    """Read a file of variables.

    Raises:
        ConfigError: it cannot be read, is not UTF-8 text, or a line is wrong; names file and line, never a value.
    """
    try:
        with open(path, "rb") as file:
            text = file.read().decode("utf-8-sig")
    except OSError as error:
        raise ConfigError("the env file cannot be read", where=path, why=error.strerror or str(error)) from None
    except UnicodeDecodeError as error:
        line = error.object[: error.start].count(b"\n") + 1
        raise ConfigError("not UTF-8 text", where=f"{path}:{line}", remedy="save the file as UTF-8") from None
    return parse_env_file(text, path, shell)


def parse_env_file(text: str, name: str, shell: Mapping[str, str]) -> EnvFile:
    """The variables of a file's text; of two lines for one variable the later counts.

    ``KEY`` alone takes the variable from the shell, and sets nothing where the shell has none.

    Raises:
        ConfigError: a line is wrong.
    """
    values: dict[str, str] = {}
    references: list[str] = []
    for where, line in _lines(text, name):
        key, given, rest = line.removeprefix("export ").lstrip().partition("=")
        key = key.rstrip()
        if not _NAME.fullmatch(key):
            raise ConfigError("no KEY=VALUE line", where=where, why="a name has letters, digits and _", remedy=_REMEDY)
        if not given:
            values.update({key: shell[key]} if key in shell else {})
            continue
        values[key] = _value(rest.strip(), where)
        if not rest.lstrip().startswith("'") and _REFERENCE.search(rest):
            references.append(where)
    return EnvFile(values=values, references=tuple(references))


_REMEDY = "write KEY=VALUE, or # before a comment"


def _lines(text: str, name: str) -> Iterator[tuple[str, str]]:
    """The lines that are neither empty nor a comment, with their places."""
    for number, line in enumerate(text.split("\n"), start=1):
        where = f"{name}:{number}"
        if "\0" in line:
            raise ConfigError("a line holds a NUL, which no variable can", where=where, remedy="save the file as text")
        stripped = line.strip()
        if stripped and not stripped.startswith("#"):
            yield where, stripped


def _value(text: str, where: str) -> str:
    if text[:1] not in ("'", '"'):
        return "" if text.startswith("#") else _COMMENT.sub("", text, count=1)
    quoted = _QUOTED.match(text)
    if quoted is None:
        remedy = r"close it in the same line; \n in double quotes is a new line"
        raise ConfigError(f"a quote {text[0]} is not closed", where=where, remedy=remedy)
    rest = text[quoted.end() :]
    if rest and not _COMMENT.fullmatch(rest):
        raise ConfigError("text after the closing quote", where=where, remedy="quote the whole value, or nothing of it")
    inner = quoted.group()[1:-1]
    if text[0] == "'":
        return inner.replace("\\'", "'")
    return _ESCAPE.sub(lambda found: _MEANT.get(found.group(1), found.group()), inner)
