"""Files that name nodes of Slurm, one a line, such as a preflight leaves: ``--exclude ./failing_nodes.txt``."""

from __future__ import annotations

import os
from collections.abc import Mapping
from pathlib import Path

from attrs import evolve

from primus_core.errors import ConfigError
from primus_core.experiment import Leaf

_LISTS = ("exclude", "nodelist")
"""Options that name nodes, or with a slash in the value a file, as Slurm has it."""
_FILE = "nodefile"


def with_absolute_path(option: str, leaf: Leaf, folder: str) -> Leaf:
    """The leaf of an option of Slurm; the path of a file does not depend on where the job is submitted."""
    if not _is_file(option, leaf):
        return leaf
    return evolve(leaf, value=os.path.normpath(os.path.join(folder, str(leaf.value))), text=None)


def without_empty_files(leaves: Mapping[str, Leaf]) -> dict[str, Leaf]:
    """The options of Slurm, whose files are looked at: where no node is to be excluded, none is.

    Raises:
        ConfigError: a file cannot be read, or names no node although the job is to run on those.
    """
    return {option: leaf for option, leaf in leaves.items() if not _is_file(option, leaf) or _names(option, leaf)}


def _is_file(option: str, leaf: Leaf) -> bool:
    return isinstance(leaf.value, str) and (option == _FILE or (option in _LISTS and "/" in leaf.value))


def _names(option: str, leaf: Leaf) -> bool:
    """Whether the file names a node."""
    path = str(leaf.value)
    try:
        lines = Path(path).read_text(encoding="utf-8").splitlines()
    except (OSError, UnicodeDecodeError) as error:
        why = (error.strerror or str(error)) if isinstance(error, OSError) else "it is no UTF-8 text"
        raise ConfigError(
            f"the file of --{option} cannot be read", where=path, why=why, remedy="check the path"
        ) from None
    if any(line.partition("#")[0].strip() for line in lines):
        return True
    if option == "exclude":
        return False
    raise ConfigError(f"the file of --{option} names no node", where=path, remedy="write one node a line")
