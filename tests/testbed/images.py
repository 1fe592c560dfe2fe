"""Container images made of this machine's own files: nothing is downloaded, no registry is asked.

An image holds a shell, some commands and this Python with its standard library. The training libraries, two gigabytes
of them, are links: whoever starts a container gives it ``Image.libraries`` as a volume, and then it has them.
"""

from __future__ import annotations

import importlib.metadata
import os
import re
import shutil
import subprocess
import sys
import sysconfig
from collections.abc import Iterable, Iterator
from itertools import chain
from pathlib import Path

from attrs import frozen
from packaging.requirements import Requirement
from packaging.utils import NormalizedName, canonicalize_name

PROGRAMS = ("bash", "sh", "env", "cat", "ls", "id", "sleep", "touch", "stat", "true", "false", "head", "mkdir", "df")
TRAINING = ("torch", "megatron-core", "torchtitan", "einops", "psutil", "safetensors")
DATA = ("numpy", "huggingface-hub", "pyarrow", "sentencepiece", "tokenizers")
OURS = ("primus-core", "primus-backend-megatron", "primus-backend-torchtitan", "primus-launchers", "primus-preflight")
PREFIX = "opt/venv"
"""Where the image's Python looks for its packages, as in the images of a vendor."""
LINKED = "/opt/libraries"
"""Where the links of the training libraries point to."""
_NOT_NEEDED = ("test", "tests", "idlelib", "ensurepip", "lib2to3", "turtledemo", "tkinter", "config-*", "site-packages")
_NOT_LOADED = ("_tkinter*", "_test*", "xxlimited*")


@frozen(kw_only=True)
class Image:
    """The files of an image, not yet known to any engine."""

    name: str
    root: Path
    libraries: str
    """Volume that a container needs for the training libraries: ``FOLDER:FOLDER:ro``."""
    python: str = f"/{PREFIX}/bin/python3"


def plain(folder: Path) -> Image:
    """An image with the training libraries and what they need; neither Primus nor what only Primus needs."""
    root = _system(folder / "plain")
    _link(root, _closure([*TRAINING, *DATA]))
    return _image("primus-test/plain:1", root)


def with_primus(folder: Path, *, version: str = "") -> Image:
    """The same with Primus, installed as from wheels, in this machine's version or the one that is given."""
    name = f"with-primus{version and '-' + version}"
    root = _system(folder / name)
    _link(root, _closure([*TRAINING, *DATA, *OURS]) - {canonicalize_name(name) for name in OURS})
    for distribution in OURS:
        _install(_packages(root), importlib.metadata.distribution(distribution), version)
    return _image(f"primus-test/{name}:1", root)


def _image(name: str, root: Path) -> Image:
    return Image(name=name, root=root, libraries=f"{sysconfig.get_path('purelib')}:{LINKED}:ro")


def _packages(root: Path) -> Path:
    return root / PREFIX / "lib" / f"python{sysconfig.get_python_version()}" / "site-packages"


def _system(root: Path) -> Path:
    """A root folder with programs, a Python and an environment of it without packages."""
    for name in ("tmp", "etc", "root", "proc", "sys", "dev", LINKED.lstrip("/")):
        (root / name).mkdir(parents=True, exist_ok=True)
    (root / "tmp").chmod(0o1777)
    (root / "etc/passwd").write_text("root:x:0:0:root:/root:/bin/bash\n")
    (root / "etc/group").write_text("root:x:0:\n")
    binaries = [_copied_program(root, name) for name in PROGRAMS]
    interpreter = Path(sys.base_prefix) / "bin" / f"python{sysconfig.get_python_version()}"
    _copy(root, interpreter.resolve())
    _copy_standard_library(root)
    _make_environment(root, interpreter.resolve())
    torch = Path(sysconfig.get_path("purelib")) / "torch/lib"
    compiled = [*_dynload().glob("*.so"), *torch.glob("*.so")]
    kept = [path for path in compiled if not any(path.match(pattern) for pattern in _NOT_LOADED)]
    for library in sorted(_loaded([*binaries, interpreter, *kept])):
        if not library.is_relative_to(sysconfig.get_path("purelib")):
            _copy(root, library)
    return root


def _dynload() -> Path:
    return Path(sysconfig.get_path("stdlib")) / "lib-dynload"


def _copy_standard_library(root: Path) -> None:
    source = Path(sysconfig.get_path("stdlib"))
    ignored = shutil.ignore_patterns(*_NOT_NEEDED, *_NOT_LOADED, "*.opt-?.pyc", "dist-packages")
    shutil.copytree(source, root / source.relative_to("/"), ignore=ignored, symlinks=True)


def _make_environment(root: Path, interpreter: Path) -> None:
    folder = root / PREFIX
    (folder / "bin").mkdir(parents=True)
    (folder / "pyvenv.cfg").write_text(f"home = {interpreter.parent}\ninclude-system-site-packages = false\n")
    (folder / "bin/python3").symlink_to(interpreter)
    (folder / "bin/python").symlink_to("python3")
    _packages(root).mkdir(parents=True)


def _copied_program(root: Path, name: str) -> Path:
    found = shutil.which(name, path="/bin:/usr/bin")
    assert found, f"no {name} on this machine"
    _copy(root, Path(found).resolve(), Path("/bin") / name)
    return Path(found)


def _copy(root: Path, source: Path, target: Path | None = None) -> None:
    """Copy a file's contents to its own place, or another, below the root."""
    place = root / (target or source).relative_to("/")
    place.parent.mkdir(parents=True, exist_ok=True)
    if not place.exists():
        shutil.copy(source, place)


def _loaded(files: Iterable[Path]) -> set[Path]:
    """The shared libraries that programs and libraries load when they start."""
    listed = subprocess.run(["ldd", *map(str, files)], capture_output=True, text=True, check=False).stdout
    return {Path(path) for path in re.findall(r"^\s+(?:\S+ => )?(/\S+) \(0x", listed, re.MULTILINE)}


def _closure(names: Iterable[str]) -> set[str]:
    """The named distributions and what they need here, as pip would install it."""
    seen: set[tuple[str, str]] = set()
    todo = [(canonicalize_name(name), "") for name in names]
    while todo:
        one = todo.pop()
        if one not in seen and _is_installed(one[0]):
            seen.add(one)
            todo += _needed(*one)
    return {name for name, _ in seen}


def _is_installed(name: str) -> bool:
    return any(True for _ in importlib.metadata.distributions(name=name))


def _needed(name: str, extra: str) -> Iterator[tuple[NormalizedName, str]]:
    """What a distribution needs for one of its extras, each with each extra that is asked of it."""
    for needed in map(Requirement, importlib.metadata.requires(name) or []):
        if needed.marker is None or needed.marker.evaluate({"extra": extra}):
            yield from ((canonicalize_name(needed.name), asked) for asked in ("", *needed.extras))


def _link(root: Path, names: Iterable[str]) -> None:
    """Have the image's Python find distributions of this one, by links into the volume."""
    packages = _packages(root)
    for top in sorted(set(chain.from_iterable(_tops(importlib.metadata.distribution(name)) for name in names))):
        (packages / top).symlink_to(f"{LINKED}/{top}")


def _tops(distribution: importlib.metadata.Distribution) -> Iterator[str]:
    """The names that a distribution has in the folder of all packages."""
    for path in distribution.files or ():
        if path.parts[0] not in ("..", "__pycache__"):
            yield path.parts[0]


def _install(packages: Path, distribution: importlib.metadata.Distribution, version: str) -> None:
    """Copy one of our own distributions, wherever its source lies, with its metadata."""
    name = distribution.metadata["Name"]
    package = name.replace("-", "_")
    here = next(Path(entry) / package for entry in sys.path if (Path(entry) / package / "__init__.py").is_file())
    shutil.copytree(here, packages / package, ignore=shutil.ignore_patterns("__pycache__"))
    old = distribution.version
    info = packages / f"{package}-{version or old}.dist-info"
    info.mkdir()
    for file in ("METADATA", "entry_points.txt"):
        if text := distribution.read_text(file):
            (info / file).write_text(text.replace(f"\nVersion: {old}\n", f"\nVersion: {version or old}\n"))
    (info / "INSTALLER").write_text("pip\n")
    if version:
        start = packages / package / "__init__.py"
        start.write_text(start.read_text().replace(f'__version__ = "{old}"', f'__version__ = "{version}"'))


def archive(image: Image) -> subprocess.Popen[bytes]:
    """Its files as a tar stream, all owned by root."""
    return subprocess.Popen(
        ["tar", "--create", "--numeric-owner", "--owner=0", "--group=0", f"--directory={image.root}", "."],
        stdout=subprocess.PIPE,
        env={**os.environ, "LC_ALL": "C"},
    )
