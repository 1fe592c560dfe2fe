"""The command."""

from __future__ import annotations

import os
import sys

from primus_core.rank.numa import bind
from primus_core.rank.parent import main

if __name__ == "__main__":
    bind(os.environ)
    sys.exit(main(sys.argv, os.environ))
