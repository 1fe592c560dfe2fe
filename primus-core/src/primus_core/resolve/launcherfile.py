"""Files with defaults for launchers: the sections `direct:`, `ssh:`, `container:`, `slurm:` without an experiment."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from attrs import evolve

from primus_core.errors import ConfigError, raise_all
from primus_core.experiment import Experiment, Sections
from primus_core.resolve.layout import LAUNCHERS, unknown_key
from primus_core.resolve.reading import File, Reader
from primus_core.resolve.trees import Tree, flatten, parameters, section
from primus_core.yamlfile import Fields

LAUNCHER_SECTIONS = (*LAUNCHERS, "main")
"""`main:` is for the command line itself."""
SYSTEM_DEFAULT = "launcher_defaults.yaml"
"""Name of the file that comes with Primus, as origins tell it."""
USER_DEFAULT = ".primus.yaml"
"""In the user's home folder."""


def launcher_files(path: str | None, env: Mapping[str, str], cwd: str) -> list[Sections]:
    """The files with defaults, weakest first: the one that comes with Primus, ``~/.primus.yaml``, the named one.

    Raises:
        ConfigError, ErrorGroup: as `read_launcher_file`.
    """
    here = Path(__file__).parent.parent / SYSTEM_DEFAULT
    files = [File(path=str(here), name=SYSTEM_DEFAULT), *_own(env)]
    if path:
        files.append(File(path=os.path.join(cwd, path), name=path))
    return [_read(file, env) for file in files]


def user_sections(env: Mapping[str, str]) -> Sections:
    """What ``~/.primus.yaml`` says of launchers; nothing where there is none.

    Raises:
        ConfigError, ErrorGroup: as `read_launcher_file`.
    """
    return {name: leaves for file in _own(env) for name, leaves in _read(file, env).items() if name in LAUNCHERS}


def _own(env: Mapping[str, str]) -> list[File]:
    """The user's own file, where there is one."""
    path = os.path.join(env.get("HOME") or os.sep, USER_DEFAULT)
    return [File(path=path, name=path)] if env.get("HOME") and os.path.exists(path) else []


def read_launcher_file(path: str, env: Mapping[str, str], cwd: str) -> Sections:
    """The options of a file by launcher, each with its place.

    Raises:
        ConfigError, ErrorGroup: it cannot be read, has another section, or a section that is no map.
    """
    return _read(File(path=os.path.join(cwd, path), name=path), env)


def _read(file: File, env: Mapping[str, str]) -> Sections:
    reader = Reader(env)
    fields = reader.read(file, "default")
    tree: Tree = {}
    for name, node in fields.entries.items():
        if name not in LAUNCHER_SECTIONS:
            reader.errors.append(unknown_key(name, LAUNCHER_SECTIONS, "a launcher's file", str(node.origin)))
        elif isinstance(node, Fields):
            tree[name] = parameters(node, "default", reader.errors)
        elif node.value is not None:
            where = str(node.origin)
            reader.errors.append(ConfigError(f"`{name}` is no map", where=where, remedy="write `key: value` below it"))
    raise_all(reader.errors)
    return {name: flatten(section(tree, name)) for name in LAUNCHER_SECTIONS}


def with_sections(experiment: Experiment, sections: Sections) -> Experiment:
    """The experiment with other options of launchers, of those that are named."""
    named = {name: leaves for name, leaves in sections.items() if leaves}
    return evolve(experiment, launchers={**experiment.launchers, **named})
