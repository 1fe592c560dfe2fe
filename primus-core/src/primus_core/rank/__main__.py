"""The command."""

from __future__ import annotations

import os
import sys

from primus_core.rank.parent import main

if __name__ == "__main__":
    sys.exit(main(sys.argv, os.environ))
