"""Writing to the terminal: no secret, and no failure because nobody reads any more."""

from __future__ import annotations

import contextlib
import os
import sys
from collections.abc import Mapping, Sequence
from itertools import pairwise
from typing import TextIO

from primus_core.errors import RunError


def say(text: str) -> bool:
    """Write a line to standard output. A closed pipe (``| head``) is the reader's right and changes no exit code.

    Returns:
        Whether somebody may still read what comes next.

    Raises:
        RunError: it cannot be written, such as to a full disk.
    """
    return _write(sys.stdout, f"{text}\n")


def complain(text: str, env: Mapping[str, str]) -> None:
    """Write text to standard error, without the values of the environment's secrets."""
    from primus_core.log.redaction import Redactor
    from primus_core.planning.secrets import secret_names

    with contextlib.suppress(RunError):  # nowhere is left to say so; the exit code is
        _write(sys.stderr, Redactor.of_environment(secret_names(env), env)(text))


def assignments(arguments: Sequence[str]) -> dict[str, str]:
    """Variables that words like ``HF_TOKEN=...`` and ``--env.HF_TOKEN ...`` set: their secrets are not echoed."""
    pairs = [word.partition("=")[::2] for word in arguments if "=" in word]
    pairs += [(word, value) for word, value in pairwise(arguments) if word.startswith("--") and "=" not in word]
    return {name.rpartition(".")[2]: value for name, value in pairs}


def _write(stream: TextIO | None, text: str) -> bool:
    if stream is None:  # the caller closed it: `>&-`
        return False
    try:
        encoding = stream.encoding or "utf-8"
        stream.write(text.encode(encoding, "backslashreplace").decode(encoding))  # a path may hold any bytes
        stream.flush()
    except BrokenPipeError:
        _discard(stream)
        return False
    except OSError as error:
        _discard(stream)
        raise RunError(
            "the output cannot be written", why=error.strerror or str(error), remedy="send it somewhere else"
        ) from None
    return True


def _discard(stream: TextIO) -> None:
    """Let what is left in its buffer, which Python writes at exit, go nowhere."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), stream.fileno())
