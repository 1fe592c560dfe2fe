"""A plugin of torch, found by its entry points as those of new devices are: one element of each result is wrong.

`install` makes a folder for ``PYTHONPATH``; every process that loads torch with it computes wrong sums over ranks, or
wrong products of matrices, as one on a host with a broken accelerator or network card would.
"""

from __future__ import annotations

from pathlib import Path
from typing import Literal

_MODULE = """
def load():
    import torch
    from torch import distributed

    owner, name = {"sums": (distributed, "all_reduce"), "products": (torch, "matmul")}[WHAT]
    right = getattr(owner, name)

    def wrong(*arguments, **options):
        done = right(*arguments, **options)
        result = options.get("out", arguments[0]).view(-1)
        if result.numel() > 1:
            result[result.numel() // 2] += 1
        return done

    setattr(owner, name, wrong)
"""


def install(folder: Path, what: Literal["sums", "products"]) -> Path:
    """Write the plugin as an installed distribution; returns the folder."""
    metadata = folder / "faulty_torch-1.0.dist-info"
    metadata.mkdir(parents=True)
    (folder / "faulty_torch.py").write_text(f"WHAT = {what!r}\n{_MODULE}")
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: faulty-torch\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text("[torch.backends]\nfaulty_torch = faulty_torch:load\n")
    return folder
