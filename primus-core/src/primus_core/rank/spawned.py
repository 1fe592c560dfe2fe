"""What a helper process that multiprocessing spawns from a rank imports first; see `primus_core.rank.helper`."""

from __future__ import annotations

import os

from primus_core.rank.helper import repatch

if __name__ == "__mp_main__":
    repatch(os.environ)
