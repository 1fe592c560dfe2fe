"""Devices that files name for every host, as the reference's do: InfiniBand's are given where a host has them."""

from __future__ import annotations

import os

import pytest

from primus_launchers.container.checks import devices_missing
from primus_launchers.container.request import Request
from primus_launchers.container.tables import on_this_host

INFINIBAND = "/dev/infiniband"


def asking(*devices: str) -> Request:
    return Request(image="i", run_id="r", command=("-m", "primus_core.rank", "plan.json"), devices=devices)


@pytest.mark.skipif(os.path.exists(INFINIBAND), reason="this host has InfiniBand")
def test_a_host_without_infiniband_does_without() -> None:
    """Whoever names it, in a file for all hosts, is told of nothing."""
    assert on_this_host(["/dev/null", INFINIBAND]) == ("/dev/null",)
    assert list(devices_missing(asking("/dev/null", INFINIBAND))) == []


def test_any_other_device_has_to_be_there() -> None:
    """The one that is missing is named."""
    (error,) = devices_missing(asking("/dev/null", "/dev/no-such-device"))
    assert "has no /dev/no-such-device" in str(error)
