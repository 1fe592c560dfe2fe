"""What the tests of containers stand on."""

from __future__ import annotations

import pytest

from tests.testbed.containers import Engine
from tests.testbed.images import Image

pytestmark = pytest.mark.cluster


def _python(engine: Engine, image: Image, code: str, *options: str) -> str:
    return engine.check("run", "--rm", "--network=host", *options, image.name, "python3", "-c", code).strip()


def test_an_image_has_the_libraries_and_no_primus(engine: Engine, plain_image: Image) -> None:
    """A container has the training libraries through its volume, and nothing that only Primus needs."""
    engine.add(plain_image)
    code = "from importlib.util import find_spec as f; print(*[n for n in {} if f(n)])"
    names = ("torch", "megatron.core", "torchtitan", "numpy", "primus_core", "cattrs", "structlog", "pluggy")
    assert _python(engine, plain_image, code.format(names), f"--volume={plain_image.libraries}").split() == list(
        names[:4]
    )
    assert _python(engine, plain_image, code.format(("torch",))) == ""


def test_an_image_has_primus(podman: Engine, primus_image: Image) -> None:
    """Primus is installed in the other image, its plugins declared."""
    podman.add(primus_image)
    code = "from primus_core.discovery import scan; print(*{i.name for i in scan().of('primus.backends')})"
    said = _python(podman, primus_image, code, f"--volume={primus_image.libraries}")
    assert set(said.split()) >= {"megatron", "torchtitan"}
