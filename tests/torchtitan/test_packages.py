"""Packages that are missing or too old for what an experiment chooses."""

from __future__ import annotations

from pathlib import Path

import pytest

from primus_backend_torchtitan import rank
from primus_core.discovery import installed_version
from primus_core.experiment import Value
from primus_core.outcome import Finding, Where
from tests.torchtitan.experiments import MOCK, findings, plan_of

FLOAT8: dict[str, Value] = {"model.converters": [{"kind": "float8_linear", "emulate": True}]}
HAVE_TORCH = installed_version("torch") is not None
needs_torch = pytest.mark.skipif(not HAVE_TORCH, reason="torch is not installed: nobody can tell what the ranks have")


def installed(folder: Path, name: str, version: str) -> None:
    """A distribution of a name and version, as pip leaves it behind."""
    info = folder / f"{name}-{version}.dist-info"
    info.mkdir()
    (info / "METADATA").write_text(f"Metadata-Version: 2.1\nName: {name}\nVersion: {version}\n")


def of_packages(found: list[Finding]) -> list[Finding]:
    return [finding for finding in found if finding.check == "torchtitan.packages"]


def test_a_torch_that_is_too_old_is_told_before_training(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Both versions and the command that helps; a missing or old dependency is exit code 1."""
    installed(tmp_path, "torch", "2.9.1")
    monkeypatch.syspath_prepend(str(tmp_path))
    (told,) = of_packages(findings(MOCK))
    assert told.summary == "torch 2.9.1 is too old for TorchTitan 0.3, which needs torch>=2.13"
    assert (told.severity, told.cause, told.remedy) == ("error", "dependency", "`pip install 'torch>=2.13'`")


@pytest.mark.parametrize("version", ["2.13.0+cpu", "2.14.0.dev20260901+cu130", "2.13.0a0+git123"])
def test_local_and_nightly_builds_are_new_enough(version: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Labels of a build do not make it old; a build before the release is one of 2.13 only where it says so."""
    installed(tmp_path, "torch", version)
    monkeypatch.syspath_prepend(str(tmp_path))
    assert bool(of_packages(findings(MOCK))) == ("a0" in version)


@needs_torch
def test_a_package_of_a_chosen_feature_is_asked_for_where_it_is_chosen(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Float8 needs torchao: the finding has the parameter's place; without float8, or with torchao, there is none."""
    if installed_version("torchao") is None:
        (told,) = of_packages(findings({**MOCK, **FLOAT8}))
        assert told.summary == "torchao is missing for float8 and smaller formats"
        assert told.where.startswith("exp.yaml:")
    assert of_packages(findings(MOCK)) == []
    installed(tmp_path, "torchao", "0.17.0")
    monkeypatch.syspath_prepend(str(tmp_path))
    assert of_packages(findings({**MOCK, **FLOAT8})) == []


def test_each_rank_looks_again(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The host that submits may have other packages than the nodes."""
    installed(tmp_path, "torch", "2.9.1")
    plan = plan_of(MOCK)
    monkeypatch.syspath_prepend(str(tmp_path))
    assert [finding.summary for finding in rank.preflight_check(plan, Where.NODE)] == [
        "torch 2.9.1 is too old for TorchTitan 0.3, which needs torch>=2.13"
    ]
