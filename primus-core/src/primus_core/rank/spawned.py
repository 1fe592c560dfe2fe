"""What a helper process that multiprocessing spawns from a rank imports first; see `primus_core.rank.helper`."""

from __future__ import annotations

import os

from primus_core.rank.helper import join_log, repatch

if __name__ == "__mp_main__":
    join_log(os.environ)
    repatch(os.environ)
