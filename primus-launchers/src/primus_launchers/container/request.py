"""What the program on a node is asked for, and the words on its command line that say it.

What only the program itself needs is elsewhere: a dry run makes the words, and is to be quick.
"""

from __future__ import annotations

from collections.abc import Iterator

from attrs import frozen

from primus_core.plan import Mount


@frozen(kw_only=True)
class Request:
    """One container, and what runs in it. Empty text: nothing was asked for."""

    image: str
    run_id: str
    command: tuple[str, ...]
    """The interpreter's arguments for one rank: ``-m MODULE ...``, or a program's own."""
    runner: str = "primus_launchers.torchrun"
    """The module that starts the ranks of the node."""
    torchrun: tuple[str, ...] = ()
    """Options of torchrun, which every runner takes."""
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


WORDS = {
    "--image": "image",
    "--run-id": "run_id",
    "--accelerator": "accelerator",
    "--runner": "runner",
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
_UNASKED = {"engine": "auto", "python": "python3", "runner": "primus_launchers.torchrun"}
"""Values of options that need no words."""
LISTS = {
    "--inherit": "inherit",
    "--volume": "volumes",
    "--device": "devices",
    "--capability": "capabilities",
    "--argument": "arguments",
    "--torchrun": "torchrun",
}
"""Options that may be repeated."""
READ, WRITE = "--read", "--write"


def to_argv(request: Request) -> tuple[str, ...]:
    """The words from which `primus_launchers.container.parsing` makes the same request."""
    return (*_options(request), "--", *request.command)


def _options(request: Request) -> Iterator[str]:
    for option, name in WORDS.items():
        if (value := getattr(request, name)) != _UNASKED.get(name, ""):
            yield f"{option}={value}"
    for mount in request.mounts:
        yield f"{WRITE if mount.writable else READ}={mount.path}"
    for option, name in LISTS.items():
        yield from (f"{option}={value}" for value in getattr(request, name))
    if request.clean:
        yield "--clean"
