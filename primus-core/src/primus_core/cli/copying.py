"""Where the console of a run goes: ``--log_file`` gets a copy of it, ``--silent`` takes it away."""

from __future__ import annotations

import argparse
import io
import os
import sys
from collections.abc import Iterator, Mapping
from contextlib import ExitStack, contextmanager, redirect_stderr, redirect_stdout
from pathlib import PurePath
from typing import TextIO, cast

from primus_core.cli.launchoptions import asked_env
from primus_core.cli.screen import error_screen
from primus_core.errors import ConfigError
from primus_core.log.redaction import Redactor
from primus_core.planning.secrets import secret_names
from primus_core.submit.console import Console
from primus_core.submit.consoles import Consoles, Shows


class LogFile(io.TextIOBase):
    """The copy. When it cannot be written any more, it says so once and the run goes on."""

    def __init__(self, path: str) -> None:
        try:
            os.makedirs(os.path.dirname(path) or ".", exist_ok=True)
            # one file for the whole command: closed by `close`
            self._file = open(path, "a", encoding="utf-8", errors="backslashreplace")  # noqa: SIM115
        except OSError as error:
            why = error.strerror or str(error)
            raise ConfigError(f"--log_file {path}: cannot be written", why=why, remedy="choose another path") from None
        self._path = path
        self._warn = sys.stderr
        self._failed = False

    def write(self, text: str) -> int:
        if not self._failed:
            try:
                self._file.write(text)
                self._file.flush()
            except OSError as error:
                self._failed = True
                if self._warn:
                    self._warn.write(f"warning: {self._path} cannot be written any more: {error.strerror}\n")
        return len(text)

    def close(self) -> None:
        try:
            self._file.close()
        except OSError:  # told at the write that failed
            return


class _Tee(io.TextIOBase):
    """A standard stream and its copy."""

    def __init__(self, stream: TextIO | None, copy: LogFile | None) -> None:
        self._stream, self._copy = stream, copy

    @property
    def encoding(self) -> str:  # type: ignore[override]  # typeshed has an attribute where io has a property
        return (self._stream.encoding if self._stream else None) or "utf-8"

    def write(self, text: str) -> int:
        if self._copy:
            self._copy.write(text)
        return self._stream.write(text) if self._stream else len(text)

    def flush(self) -> None:
        if self._stream:
            self._stream.flush()

    def fileno(self) -> int:
        if self._stream is None:
            raise io.UnsupportedOperation("no stream")
        return self._stream.fileno()

    def isatty(self) -> bool:
        return self._stream is not None and self._stream.isatty()


@contextmanager
def console_of(args: argparse.Namespace, env: Mapping[str, str]) -> Iterator[Shows | None]:
    """What shows a run, for as long as it takes; None: what `submit` would choose.

    Raises:
        ConfigError: the file of ``--log_file`` cannot be written.
    """
    if args.log_file is None and not args.silent:
        yield None
        return
    stdout: TextIO | None = None if args.silent else sys.stdout
    with ExitStack() as stack:
        copy = LogFile(node_file(args.log_file, {**env, **asked_env(args, env)})) if args.log_file else None
        if copy:
            stack.callback(copy.close)
        consoles = [Console.on(stdout, env)] if stdout else []
        if copy:
            consoles.append(Console(cast(TextIO, copy), live=False))
        stack.enter_context(redirect_stdout(_Tee(stdout, copy)))
        stack.enter_context(redirect_stderr(_Tee(sys.stderr, copy)))
        try:
            yield Consoles(consoles)
        except Exception as error:
            if copy:  # the screen on the terminal is shown when the file is closed
                copy.write(Redactor.of_environment(secret_names(env), env)(error_screen(error)))
            raise


def node_file(path: str, env: Mapping[str, str]) -> str:
    """The file of this node: of several, each has one of its own, ``run.node-3.log``."""
    if env.get("NNODES", "1") == "1":
        return path
    pure = PurePath(path)
    return str(pure.with_name(f"{pure.stem}.node-{env.get('NODE_RANK', '0')}{pure.suffix}"))
