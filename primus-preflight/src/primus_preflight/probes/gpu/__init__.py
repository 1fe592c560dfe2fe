"""Looks at accelerators: all of the node together, and each by itself in a process of its own.

Files of the driver and the programs that come with it are asked: nvidia-smi (which is NVML), amd-smi (which is the
amdsmi library), rocm-smi, sysfs. No library is loaded into this process, so that a driver that hangs hangs one look.
"""

from __future__ import annotations

from collections.abc import Sequence

from primus_core.plan import Accelerator
from primus_core.planning.accelerators import find_accelerators
from primus_preflight.agent.looked import Looked
from primus_preflight.agent.probing import Look, Outcome
from primus_preflight.settings.visibility import visible

SECONDS = 30.0
"""Limit of a look: a driver without its persistence mode takes some seconds to wake a device."""


def looks(about: Looked) -> Sequence[Look]:
    """One at all accelerators, and one at each that a run may use."""
    found = find_accelerators(about.root)
    every = Look(name="accelerators", group="gpu", take=lambda: _node(about), seconds=SECONDS)
    numbers = visible(about.env, found.kind, found.count)
    return (every, *(_device_look(about, found.kind, number, index) for index, number in enumerate(numbers)))


def _device_look(about: Looked, kind: Accelerator, number: int, index: int) -> Look:
    """Of the driver's device ``number``, which ranks know by its place among those that they see."""
    return Look(name="device", group="gpu", device=index, take=lambda: _device(about, kind, number), seconds=SECONDS)


def _node(about: Looked) -> Outcome:
    from primus_preflight.probes.gpu import node  # here: most looks at a host need none of it

    return node.look(about)


def _device(about: Looked, kind: Accelerator, number: int) -> Outcome:
    from primus_preflight.probes.gpu import device  # here: see above

    return device.look(about, kind, number)
