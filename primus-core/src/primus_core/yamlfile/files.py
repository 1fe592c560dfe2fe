"""Reading a configuration file as text."""

from __future__ import annotations

import codecs
import os
import stat

from primus_core.errors import ConfigError

_LARGEST_FILE = 1 << 20
"""Bytes. A configuration that is larger is some other file, given by mistake."""


def read_text(path: str, name: str) -> str:
    """The text of a regular UTF-8 file, without a byte order mark; ``name`` is what errors call it.

    Raises:
        ConfigError: the path is missing, unreadable or no regular file, or the content too large, empty or not UTF-8.
    """
    content = _read_bytes(path, name).removeprefix(codecs.BOM_UTF8)
    try:
        text = content.decode()
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise ConfigError(
            "the file is not UTF-8 text",
            where=f"{name}:{line}",
            why=f"byte {error.start} is 0x{error.object[error.start]:02x}: {error.reason}",
            remedy="save the file as UTF-8",
        ) from None
    if not text.strip():
        raise empty_file(name)
    return text


def empty_file(name: str) -> ConfigError:
    return ConfigError("the file is empty", where=name, remedy="write the configuration into it, or name another file")


def _read_bytes(path: str, name: str) -> bytes:
    try:
        with open(path, "rb", opener=_open) as file:
            if not stat.S_ISREG(os.fstat(file.fileno()).st_mode):
                raise _not_a_file(name, "it is a pipe or device")
            content = file.read(_LARGEST_FILE + 1)
    except FileNotFoundError:
        raise ConfigError("the file does not exist", where=name, remedy="check the path") from None
    except IsADirectoryError:
        raise _not_a_file(name, "it is a folder") from None
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise ConfigError("the file cannot be read", where=name, why=why, remedy="check the path") from None
    if len(content) > _LARGEST_FILE:
        raise ConfigError(
            "the file is too large",
            where=name,
            why=f"a configuration file has at most {_LARGEST_FILE} bytes",
            remedy="check that this is the right file",
        )
    return content


def _open(path: str, flags: int) -> int:
    """Opening a named pipe that nobody writes would wait forever."""
    return os.open(path, flags | os.O_NONBLOCK)


def _not_a_file(name: str, why: str) -> ConfigError:
    return ConfigError("not a regular file", where=name, why=why, remedy="name a YAML file")
