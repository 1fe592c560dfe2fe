"""The command; and, in a helper process that multiprocessing spawns from a rank, the rank's patches."""

from __future__ import annotations

import os
import sys

if __name__ == "__main__":
    from primus_core.rank.parent import main

    sys.exit(main(sys.argv, os.environ))
elif __name__ == "__mp_main__":
    # A helper imports the main module before it unpickles its work. It starts without the changes that the rank made
    # to the library, and would hang or fail where they are needed.
    from primus_core.rank.helper import repatch

    repatch(os.environ)
