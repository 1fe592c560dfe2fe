"""The words after ``podman run`` or ``docker run``."""

from __future__ import annotations

import os
import posixpath
from collections.abc import Iterator, Mapping, Sequence

from attrs import frozen

from primus_core.errors import ConfigError
from primus_core.plan import Mount
from primus_launchers.container.engine import DOCKER, Engine
from primus_launchers.container.mounts import as_option, covering
from primus_launchers.container.node import Caller, chosen_gpus, group_ids, render_devices
from primus_launchers.container.request import Request
from primus_launchers.container.tables import Needs, on_this_host
from primus_launchers.container.words import gives, values_of

INSIDE = "primus_launchers.container.inside"
RUN_LABEL = "io.primus.run"
USER_LABEL = "io.primus.user"
_HOST = "host"
_SHM_SIZE = "16g"
"""Where the host's shared memory is not used: engines give 64 MB, in which no data loader lives."""
_RENDER = "/dev/dri"
_HOME = "/tmp"  # noqa: S108  # of a user whom the image does not know: every image lets all users write there


@frozen(kw_only=True)
class Command:
    """Makes the words; looks at no more than the device files of this host."""

    request: Request
    engine: Engine
    needs: Needs
    caller: Caller
    name: str
    environment: Mapping[str, str]
    """What the container inherits."""
    engine_variables: Sequence[str]
    """Of these, what the engine has to see; only names are among the words."""
    caches: Sequence[Mount]
    """Folders that variables name."""

    @property
    def argv(self) -> tuple[str, ...]:
        words = [*self._own(), *self._place(), *self._limits(), *self._files(), *self._hardware(), *self._variables()]
        given = self.request.arguments
        return (self.engine.path, "run", *words, *given, self.request.image, *self._inside())

    @property
    def takes_callers_id(self) -> bool:
        """Files would belong to root otherwise."""
        return not (self.request.user or self.engine.rootless or self.caller.uid == 0 or self._gives("user"))

    @property
    def variables(self) -> dict[str, str]:
        """What the ranks find in their environment beside the image's own."""
        if not self.takes_callers_id:
            return dict(self.environment)
        return {"HOME": _HOME, "USER": self.caller.name, "LOGNAME": self.caller.name, **self.environment}

    def _own(self) -> Iterator[str]:
        """Removed at its end; its output is nobody's but ours; signals go through its input."""
        yield from ("--rm", "--interactive", "--sig-proxy=false", f"--name={self.name}")
        yield from (f"--label={RUN_LABEL}={self.request.run_id}", f"--label={USER_LABEL}={self.caller.uid}")
        for option, value in (("pull", "never"), ("log-driver", "none")):
            if not self._gives(option):
                yield f"--{option}={value}"

    def _place(self) -> Iterator[str]:
        request = self.request
        if not self._gives("net"):
            network = request.network or _HOST
            yield f"--network={network}"
        if not self._gives("hostname", "uts"):
            yield f"--hostname={self.caller.host}"
        yield from self._shared_memory()
        yield from self._as_user()
        if request.workdir and not self._gives("workdir", "w"):
            yield f"--workdir={request.workdir}"

    def _shared_memory(self) -> Iterator[str]:
        request = self.request
        own = bool(request.shm_size) or self._gives("shm-size")
        if request.ipc or not (own or self._gives("ipc")):
            yield f"--ipc={request.ipc or _HOST}"
        if request.shm_size:
            yield f"--shm-size={request.shm_size}"
        elif request.ipc not in ("", _HOST) and not own:
            yield f"--shm-size={_SHM_SIZE}"

    def _as_user(self) -> Iterator[str]:
        if self.request.user:
            yield f"--user={self.request.user}"
        elif self.takes_callers_id:
            yield f"--user={self.caller.uid}:{self.caller.gid}"
            yield from (f"--group-add={group}" for group in self.caller.groups)

    def _limits(self) -> Iterator[str]:
        """Where the engine is not root's, nobody can raise a limit, and the caller's own are inherited."""
        request = self.request
        yield from (f"--cpus={request.cpus}",) if request.cpus else ()
        yield from (f"--memory={request.memory}",) if request.memory else ()
        if not self._gives("pids-limit"):
            yield "--pids-limit=-1"
        given = {value.partition("=")[0] for value in values_of(request.arguments, "ulimit")}
        limits = () if self.engine.rootless else self.needs.ulimits
        yield from (f"--ulimit={limit}" for limit in limits if limit.partition("=")[0] not in given)

    def _files(self) -> Iterator[str]:
        if self.caller.selinux:  # to label the user's files anew would be worse
            yield "--security-opt=label=disable"
        code = (Mount(path=posixpath.dirname(self.request.code)),) if self.request.code else ()
        asked = {_inside_path(word) for word in self.request.volumes}  # engines refuse one place twice
        for mount in (*covering((*self.request.mounts, *self.caches)), *code):
            if mount.path not in asked:
                yield f"--mount={as_option(mount, os.path.realpath(mount.path))}"
        yield from (f"--volume={volume(word)}" for word in self.request.volumes)

    def _hardware(self) -> Iterator[str]:
        devices = self._devices()
        yield from (f"--device={device}" for device in dict.fromkeys((*devices, *on_this_host(self.request.devices))))
        if not self.engine.rootless:
            yield from (f"--group-add={group}" for group in self._groups(devices))
        yield from (f"--cap-add={name}" for name in self.request.capabilities or self.needs.capabilities)
        yield from (f"--security-opt={rule}" for rule in self.needs.security)
        if self.needs.gpus and not self._gives("gpus"):
            yield from self._gpus()

    def _devices(self) -> tuple[str, ...]:
        needs, gpus = self.needs, self.request.gpus
        present = tuple(path for path in needs.devices_where_present if os.path.exists(path))
        chosen = _RENDER in needs.devices and chosen_gpus(gpus) is not None
        if not chosen:
            return (*needs.devices, *present)
        others = (path for path in needs.devices if path != _RENDER)
        return (*others, *render_devices(gpus), *present)

    def _groups(self, devices: Sequence[str]) -> tuple[int, ...]:
        own = self.caller.groups if self.takes_callers_id else ()
        return tuple(group for group in group_ids(self.needs.groups, devices) if group not in own)

    def _gpus(self) -> Iterator[str]:
        """NVIDIA's. podman has no option for it: its devices have names of their own."""
        wanted = chosen_gpus(self.request.gpus)
        if self.engine.kind == DOCKER:
            yield f"--gpus={self.request.gpus or 'all'}"
            return
        numbers = ("all",) if wanted is None else range(wanted) if isinstance(wanted, int) else wanted
        yield from (f"--device=nvidia.com/gpu={number}" for number in numbers)

    def _variables(self) -> Iterator[str]:
        yield from (f"--env={name}" for name in self.engine_variables if name in self.environment)

    def _inside(self) -> tuple[str, ...]:
        """Every module is started by the code that is brought along, or found in the image."""
        request = self.request
        module = (request.code,) if request.code else ("-m",)
        start = (request.python, *module)
        rank = (*module, *request.command[1:]) if request.command[:1] == ("-m",) else request.command
        return (*start, INSIDE, *start, request.runner, *request.torchrun, *rank)

    def _gives(self, *options: str) -> bool:
        return gives(self.request.arguments, *options)


def _inside_path(word: str) -> str:
    """Where the container has a volume: ``HOST`` alone is mounted under its own path."""
    source, _, target = word.partition(":")
    return posixpath.normpath(target.partition(":")[0] or source)


def volume(word: str) -> str:
    """``HOST`` alone is mounted under its own path; an engine would make an empty volume of it.

    Raises:
        ConfigError: the host has no such file or folder; docker would make an empty folder, as root.
    """
    source, colon, _ = word.partition(":")
    if posixpath.isabs(source) and not os.path.exists(source):
        raise ConfigError(
            f"--volume {word}: {os.uname().nodename} has no {source}",
            where="container.volume",
            remedy="make it, or mount something else",
        )
    return word if colon else f"{word}:{word}"
