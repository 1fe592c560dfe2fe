"""What the program on a node is asked for, and the words on its command line that say it."""

from __future__ import annotations

import argparse
from collections.abc import Iterator, Sequence

from attrs import frozen

from primus_core.plan import Mount


@frozen(kw_only=True)
class Request:
    """One container, and what runs in it. Empty text: nothing was asked for."""

    image: str
    run_id: str
    command: tuple[str, ...]
    """The interpreter's arguments for one rank: ``-m MODULE ...``, or a program's own."""
    torchrun: tuple[str, ...] = ()
    """Options of torchrun."""
    accelerator: str = "cpu"
    code: str = ""
    """The file that starts modules of the code that is brought along; empty: the image has Primus installed."""
    engine: str = "auto"
    """``podman``, ``docker``, or the path of one; ``auto``: the one that answers."""
    python: str = "python3"
    """Interpreter in the image."""
    workdir: str = ""
    mounts: tuple[Mount, ...] = ()
    inherit: tuple[str, ...] = ()
    """Names of variables that the container gets beside those of the data file."""
    volumes: tuple[str, ...] = ()
    """``HOST``, ``HOST:CONTAINER`` or ``HOST:CONTAINER:MODE``."""
    devices: tuple[str, ...] = ()
    capabilities: tuple[str, ...] = ()
    """Instead of those of the accelerator."""
    arguments: tuple[str, ...] = ()
    """Further words for ``podman run`` or ``docker run``, as given."""
    name: str = ""
    user: str = ""
    network: str = ""
    ipc: str = ""
    cpus: str = ""
    memory: str = ""
    shm_size: str = ""
    gpus: str = ""
    clean: bool = False
    """Remove what earlier runs left."""


_WORDS = {
    "--image": "image",
    "--run-id": "run_id",
    "--accelerator": "accelerator",
    "--code": "code",
    "--engine": "engine",
    "--python": "python",
    "--workdir": "workdir",
    "--name": "name",
    "--user": "user",
    "--network": "network",
    "--ipc": "ipc",
    "--cpus": "cpus",
    "--memory": "memory",
    "--shm-size": "shm_size",
    "--gpus": "gpus",
}
"""Options that have one value."""
_LISTS = {
    "--inherit": "inherit",
    "--volume": "volumes",
    "--device": "devices",
    "--capability": "capabilities",
    "--argument": "arguments",
    "--torchrun": "torchrun",
}
"""Options that may be repeated."""
_READ, _WRITE = "--read", "--write"


def to_argv(request: Request) -> tuple[str, ...]:
    """The words from which `parse` makes the same request."""
    return (*_options(request), "--", *request.command)


def _options(request: Request) -> Iterator[str]:
    for option, name in _WORDS.items():
        if value := getattr(request, name):
            yield f"{option}={value}"
    for mount in request.mounts:
        yield f"{_WRITE if mount.writable else _READ}={mount.path}"
    for option, name in _LISTS.items():
        yield from (f"{option}={value}" for value in getattr(request, name))
    if request.clean:
        yield "--clean"


def parse(argv: Sequence[str], prog: str) -> Request:
    """The request of a command line; a wrong one ends the program with status 2, as argparse does."""
    words = list(argv)
    end = words.index("--") if "--" in words else len(words)
    given = vars(_parser(prog).parse_args(words[:end]))
    lists = {name: tuple(given[name]) for name in ("mounts", *_LISTS.values())}
    return Request(**{**given, **lists, "command": tuple(words[end + 1 :])})


def _parser(prog: str) -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog=prog, allow_abbrev=False)
    defaults = Request(image="", run_id="", command=())
    for option, name in _WORDS.items():
        parser.add_argument(option, dest=name, default=getattr(defaults, name), required=name in ("image", "run_id"))
    for option, name in _LISTS.items():
        parser.add_argument(option, dest=name, action="append", default=[])
    parser.add_argument(_READ, dest="mounts", action="append", default=[], type=_readable)
    parser.add_argument(_WRITE, dest="mounts", action="append", default=[], type=_writable)
    parser.add_argument("--clean", action="store_true")
    return parser


def _readable(path: str) -> Mount:
    return Mount(path=path)


def _writable(path: str) -> Mount:
    return Mount(path=path, writable=True)
