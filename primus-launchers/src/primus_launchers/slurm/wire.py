r"""What the program beside ``srun`` and the one on each node say to each other.

To all nodes goes one line of JSON each (`primus_launchers.ssh.wire`), through the standard input of ``srun``, which
passes it to every task: so nothing has to be asked of Slurm itself, and what comes early waits. The first is the
request, with what is the same on every node. Then:

=======  =================================================================================
alive    nothing to say, but still there
meet     ``address``, ``port``: try to reach the first node there
start    ``address``, ``port``: begin
signal   ``number``: for the ranks; ``lost_seconds``: how long a silence means from now on that nobody is there
end      end everything on this node; kill what is left after ``grace`` seconds
=======  =================================================================================

From a node come lines (`primus_launchers.slurm.frames`): those of the ranks, and among them events of the kind
``slurm`` with a ``state`` and the node's ``host``: ``ready`` with ``job``, ``hosts``, ``address`` and ``port``;
``refused`` with ``problems``; ``met``; ``ended`` with ``status``.
"""

from __future__ import annotations

KIND = "slurm"
GRACE_SECONDS = 8.0
"""For ranks to end in good order once another node has failed."""
END_SECONDS = 10.0
"""From the first failure until what is left is killed."""
LOST_SECONDS = 30.0
BEATS = 3
"""Signs of life in the time after which silence means loss."""
INTERRUPTED_LOST_SECONDS = 6.0
"""Of silence, after a Ctrl-C: whoever presses it again has ``srun`` killed, which then tells the nodes nothing."""
