"""One process on each node instead of torchrun: ``python -m primus_launchers.plain`` with torchrun's own options.

For tasks whose nodes do not depend on each other. It says to the process which node it is and where the others may be
found, as torchrun does, waits for nobody, and needs no torch. Standard library only.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping, Sequence

_DEFAULTS = {"nnodes": "1", "node-rank": "0", "master-addr": "127.0.0.1", "master-port": ""}


def environment(options: Sequence[str], env: Mapping[str, str]) -> dict[str, str]:
    """The variables of the process.

    Args:
        options: torchrun's; where they say nothing, its variables ``PET_*`` do. Others mean nothing here.
    """
    given = dict(word.removeprefix("--").partition("=")[::2] for word in options)
    nodes, number, address, port = (
        given.get(name) or env.get(f"PET_{name.replace('-', '_').upper()}") or default
        for name, default in _DEFAULTS.items()
    )
    place = {"RANK": number, "GROUP_RANK": number, "WORLD_SIZE": nodes, "LOCAL_RANK": "0", "LOCAL_WORLD_SIZE": "1"}
    return {**env, **place, "MASTER_ADDR": address, **({"MASTER_PORT": port} if port else {})}


def main(argv: Sequence[str], env: Mapping[str, str]) -> None:
    """Become the process."""
    options = [word for word in argv if word.startswith("--")]
    rest = argv[len(options) :]
    os.execve(sys.executable, [sys.executable, *rest], environment(options, env))  # noqa: S606 - the launcher gives the words


if __name__ == "__main__":
    main(sys.argv[1:], os.environ)
