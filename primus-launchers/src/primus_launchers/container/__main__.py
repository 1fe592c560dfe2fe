"""``python -m primus_launchers.container``: the program on a node."""

import sys

from primus_launchers.container.wrapper import main

if __name__ == "__main__":
    sys.exit(main())
