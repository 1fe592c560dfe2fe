"""A plugin of torch, found by its entry points as those of new devices are: sums of many elements are wrong here.

`install` makes a folder for ``PYTHONPATH``; every process that loads torch with it computes wrong sums, as one on a
host with a broken accelerator or network card would.
"""

from __future__ import annotations

from pathlib import Path

_MODULE = """
def load():
    from torch import distributed

    right = distributed.all_reduce

    def wrong(tensor, *arguments, **options):
        done = right(tensor, *arguments, **options)
        if tensor.numel() > 1:
            tensor[tensor.numel() // 2] += 1
        return done

    distributed.all_reduce = wrong
"""


def install(folder: Path) -> Path:
    """Write the plugin as an installed distribution; returns the folder."""
    metadata = folder / "faulty_sums-1.0.dist-info"
    metadata.mkdir(parents=True)
    (folder / "faulty_sums.py").write_text(_MODULE)
    (metadata / "METADATA").write_text("Metadata-Version: 2.1\nName: faulty-sums\nVersion: 1.0\n")
    (metadata / "entry_points.txt").write_text("[torch.backends]\nfaulty_sums = faulty_sums:load\n")
    return folder
