"""From the command line of the program on a node to what it is asked for."""

from __future__ import annotations

import argparse
from collections.abc import Sequence

from primus_core.plan import Mount
from primus_launchers.container.request import LISTS, READ, WORDS, WRITE, Request


def parse(argv: Sequence[str], prog: str) -> Request:
    """The request of a command line; a wrong one ends the program with status 2, as argparse does."""
    words = list(argv)
    end = words.index("--") if "--" in words else len(words)
    given = vars(_parser(prog).parse_args(words[:end]))
    lists = {name: tuple(given[name]) for name in ("mounts", *LISTS.values())}
    return Request(**{**given, **lists, "command": tuple(words[end + 1 :])})


def _parser(prog: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog=prog, allow_abbrev=False)
    defaults = Request(image="", run_id="", command=())
    for option, name in WORDS.items():
        parser.add_argument(option, dest=name, default=getattr(defaults, name), required=name in ("image", "run_id"))
    for option, name in LISTS.items():
        parser.add_argument(option, dest=name, action="append", default=[])
    parser.add_argument(READ, dest="mounts", action="append", default=[], type=_readable)
    parser.add_argument(WRITE, dest="mounts", action="append", default=[], type=_writable)
    parser.add_argument("--clean", action="store_true")
    return parser


def _readable(path: str) -> Mount:
    return Mount(path=path)


def _writable(path: str) -> Mount:
    return Mount(path=path, writable=True)
