"""Podman and a docker daemon of the tests' own: storage, sockets and settings lie in a folder, not in the machine's.

A process reaches an engine with the variables of ``Engine.env``. Images come from `tests.testbed.images`.
"""

from __future__ import annotations

import contextlib
import os
import resource
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from functools import partial
from pathlib import Path

from attrs import frozen

from primus_core import linux
from tests.testbed.images import PREFIX, Image, archive

_SECONDS = 180.0
_RUNTIMES = ("crun", "runc")
_NOBODY = 65534
_AS_NOBODY = (
    *("setpriv", f"--reuid={_NOBODY}", f"--regid={_NOBODY}", "--clear-groups"),
    *("--inh-caps=+dac_read_search", "--ambient-caps=+dac_read_search"),  # for a Python that lies in root's home
)
_PATH = os.pathsep.join((os.environ.get("PATH", ""), "/usr/sbin", "/sbin"))


@frozen(kw_only=True)
class Engine:
    """What starts containers."""

    name: str
    """``podman`` or ``docker``, also the program's name."""
    env: Mapping[str, str]
    """Variables that have a process use this engine and no other; to be added to its own."""
    before: tuple[str, ...] = ()
    """Words before each command that is to reach it: they say who calls."""

    def run(self, *argv: str | Path, seconds: float = _SECONDS) -> subprocess.CompletedProcess[str]:
        """Run a command of the engine to its end, whatever comes of it."""
        return subprocess.run(
            [*self.before, self.name, *map(str, argv)],
            env={**os.environ, **self.env},
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=seconds,
            check=False,
        )

    def check(self, *argv: str | Path, seconds: float = _SECONDS) -> str:
        """The same, which must end well; returns what it printed."""
        done = self.run(*argv, seconds=seconds)
        assert done.returncode == 0, f"{self.name} {argv}: {done.stdout}{done.stderr}"
        return done.stdout

    def containers(self) -> list[str]:
        """Names of all containers, also of those that ended."""
        return sorted(self.check("ps", "--all", "--format", "{{.Names}}").split())

    def add(self, image: Image) -> None:
        """Make an image known, its Python first on PATH. One that is known already stays."""
        if self.run("image", "inspect", image.name).returncode == 0:
            return
        tar = archive(image)
        try:
            done = subprocess.run(
                [
                    *self.before,
                    self.name,
                    "import",
                    "--change",
                    f"ENV PATH=/{PREFIX}/bin:/usr/bin:/bin",
                    "-",
                    image.name,
                ],
                env={**os.environ, **self.env},
                stdin=tar.stdout,
                capture_output=True,
                text=True,
                timeout=10 * _SECONDS,
                check=False,
            )
        finally:
            if tar.stdout:
                tar.stdout.close()
            tar.wait()
        assert done.returncode == 0, f"import of {image.name}: {done.stdout}{done.stderr}"


@frozen(kw_only=True)
class Rootless:
    """An engine of a user who is not root, and a folder of that user's own."""

    engine: Engine
    folder: Path
    uid: int


def lacking_podman() -> str:
    """Why there can be no podman; empty where there can."""
    return _lacking("podman", "conmon")


def lacking_docker() -> str:
    """Why there can be no docker daemon; empty where there can."""
    return _lacking("docker", "dockerd", "containerd")


def lacking_rootless() -> str:
    """Why there can be no podman of a user who is not root; empty where there can."""
    if lacks := _lacking("podman", "conmon", "setpriv", "unshare"):
        return lacks
    allowed = subprocess.run([*_AS_NOBODY, "unshare", "--user", "true"], capture_output=True, check=False)
    return "users may have no namespaces of their own" if allowed.returncode else ""


def _lacking(*tools: str) -> str:
    if os.geteuid() != 0:
        return "containers with a storage of their own need root"
    missing = [
        tool for tool in tools if not (shutil.which(tool, path=_PATH) or Path("/usr/libexec/podman", tool).exists())
    ]
    missing += ["runc"] * (not _runtime())
    return f"not installed: {', '.join(missing)}" if missing else ""


def _runtime() -> str:
    return next((name for name in _RUNTIMES if shutil.which(name, path=_PATH)), "")


@contextlib.contextmanager
def podman() -> Iterator[Engine]:
    """Podman with a storage of its own. Its containers have this host's network."""
    with _folder("podman") as folder:
        settings, storage = folder / "containers.conf", folder / "storage.conf"
        settings.write_text(
            f"[containers]\ndefault_ulimits = [{_limits()}]\nnetns = 'host'\nlog_driver = 'k8s-file'\n"
            f"[engine]\nruntime = '{_runtime()}'\ncgroup_manager = 'cgroupfs'\nevents_logger = 'file'\n"
            f"lock_type = 'file'\ntmp_dir = '{folder}/tmp'\n"
        )
        storage.write_text(f"[storage]\ndriver = 'overlay'\ngraphroot = '{folder}/graph'\nrunroot = '{folder}/run'\n")
        env = {"CONTAINERS_CONF": str(settings), "CONTAINERS_STORAGE_CONF": str(storage), "PATH": _PATH}
        engine = Engine(name="podman", env=env)
        try:
            yield engine
        finally:
            engine.run("rm", "--all", "--force", "--time", "0")
            engine.run("rmi", "--all", "--force")


@contextlib.contextmanager
def rootless_podman() -> Iterator[Rootless]:
    """Podman of the user ``nobody``, whose containers' root is that user."""
    with _folder("rootless") as folder:
        settings, own = folder / "home/.config/containers", folder / "own"
        for made in (settings, own, folder / "run"):
            made.mkdir(parents=True)
        (settings / "containers.conf").write_text(
            f"[containers]\nnetns = 'host'\nlog_driver = 'k8s-file'\n"
            f"[engine]\nruntime = '{_runtime()}'\ncgroup_manager = 'cgroupfs'\nevents_logger = 'file'\n"
            "lock_type = 'file'\n"
        )
        (settings / "storage.conf").write_text(  # all files are of the one user that there is
            "[storage]\ndriver = 'overlay'\n[storage.options.overlay]\nignore_chown_errors = 'true'\n"
        )
        for path in (folder, *folder.rglob("*")):
            os.chown(path, _NOBODY, _NOBODY)
        env = {"HOME": f"{folder}/home", "XDG_RUNTIME_DIR": f"{folder}/run", "PATH": _PATH}
        engine = Engine(name="podman", env=env, before=_AS_NOBODY)
        try:
            yield Rootless(engine=engine, folder=own, uid=_NOBODY)
        finally:
            engine.run("rm", "--all", "--force", "--time", "0")
            engine.run("system", "reset", "--force")


@contextlib.contextmanager
def docker() -> Iterator[Engine]:
    """A docker daemon, which ends with the block. It has no network but this host's: ``--network host``."""
    with _folder("docker") as folder:
        address = f"unix://{folder}/docker.sock"
        env = {"DOCKER_HOST": address, "DOCKER_CONFIG": str(folder / "client"), "PATH": _PATH}
        engine = Engine(name="docker", env=env)
        log = folder / "log"
        with log.open("wb") as said:
            daemon = subprocess.Popen(
                _dockerd(folder, address),
                env={**os.environ, **env},
                stdin=subprocess.DEVNULL,
                stdout=said,
                stderr=said,
                start_new_session=True,
                preexec_fn=partial(linux.die_with_parent, signal.SIGTERM),
            )
        try:
            _wait_for(daemon, engine, log)
            yield engine
            for container in engine.containers():
                engine.run("rm", "--force", container)
        finally:
            daemon.terminate()
            daemon.wait(timeout=_SECONDS)


def _dockerd(folder: Path, address: str) -> list[str]:
    return [
        *("dockerd", "--host", address, "--config-file=", f"--data-root={folder}/data", f"--exec-root={folder}/run"),
        *(f"--pidfile={folder}/pid", "--bridge=none", "--iptables=false", "--ip6tables=false", "--ip-forward=false"),
        *("--ip-masq=false", "--storage-driver=overlay2", "--exec-opt", "native.cgroupdriver=cgroupfs"),
        *(word for one in _limits().replace('"', "").split(", ") for word in ("--default-ulimit", one)),
    ]


def _limits() -> str:
    """No container asks for more than this process may have."""
    files = _atmost(resource.RLIMIT_NOFILE, 20_000)
    processes = _atmost(resource.RLIMIT_NPROC, 30_000)
    return f'"nofile={files}:{files}", "nproc={processes}:{processes}"'


def _atmost(kind: int, wanted: int) -> int:
    hard = resource.getrlimit(kind)[1]
    return wanted if hard == resource.RLIM_INFINITY else min(hard, wanted)


def _wait_for(daemon: subprocess.Popen[bytes], engine: Engine, log: Path) -> None:
    deadline = time.monotonic() + _SECONDS
    while engine.run("version").returncode != 0:
        assert daemon.poll() is None, f"dockerd ended with {daemon.returncode}: {log.read_text()[-3000:]}"
        assert time.monotonic() < deadline, f"dockerd does not answer: {log.read_text()[-3000:]}"
        time.sleep(0.1)


@contextlib.contextmanager
def _folder(name: str) -> Iterator[Path]:
    """A folder with a short path, as sockets need; what is mounted in it goes with it."""
    folder = Path(tempfile.mkdtemp(prefix=f"primus-{name}-"))
    try:
        yield folder
    finally:
        for mount in reversed(_mounts_in(folder)):
            subprocess.run(["umount", "--lazy", mount], check=False)
        shutil.rmtree(folder, ignore_errors=True)


def _mounts_in(folder: Path) -> list[str]:
    lines = Path("/proc/self/mounts").read_text().splitlines()
    return [words[1] for words in map(str.split, lines) if words[1].startswith(f"{folder}/")]
