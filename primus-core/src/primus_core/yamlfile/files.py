"""Reading a configuration file as text."""

from __future__ import annotations

import os
import stat

from primus_core.errors import ConfigError

_LARGEST_FILE = 1 << 20
"""Bytes. A configuration that is larger is some other file, given by mistake."""


def read_text(path: str) -> str:
    """The text of a regular UTF-8 file, without a byte order mark.

    Raises:
        ConfigError: the path is missing, unreadable or no regular file, or the content too large, empty or not UTF-8.
    """
    content = _read_bytes(path)
    try:
        text = content.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = content.count(b"\n", 0, error.start) + 1
        raise ConfigError(
            "the file is not UTF-8 text",
            where=f"{path}:{line}",
            why=f"Byte {error.start} is 0x{content[error.start]:02x}: {error.reason}.",
            remedy="Save the file as UTF-8.",
        ) from None
    if not text.strip():
        raise empty_file(path)
    return text


def empty_file(path: str) -> ConfigError:
    return ConfigError("the file is empty", where=path, remedy="Write the configuration into it, or name another file.")


def _read_bytes(path: str) -> bytes:
    try:
        # Non-blocking: opening a named pipe that nobody writes would wait forever.
        with open(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC), "rb") as file:
            status = os.fstat(file.fileno())
            if not stat.S_ISREG(status.st_mode):
                raise _not_a_file(
                    path, "It is a folder." if stat.S_ISDIR(status.st_mode) else "It is a pipe or device."
                )
            content = file.read(_LARGEST_FILE + 1)
    except FileNotFoundError:
        raise ConfigError("the file does not exist", where=path, remedy="Check the path.") from None
    except IsADirectoryError:
        raise _not_a_file(path, "It is a folder.") from None
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or str(error)
        raise ConfigError("the file cannot be read", where=path, why=f"{why}.", remedy="Check the path.") from None
    if len(content) > _LARGEST_FILE:
        raise ConfigError(
            "the file is too large",
            where=path,
            why=f"A configuration file has at most {_LARGEST_FILE} bytes.",
            remedy="Check that this is the right file.",
        )
    return content


def _not_a_file(path: str, why: str) -> ConfigError:
    return ConfigError("not a regular file", where=path, why=why, remedy="Name a YAML file.")
