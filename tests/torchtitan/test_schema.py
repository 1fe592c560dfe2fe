"""The shipped schema of TorchTitan's parameters, compared with the installed library."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from primus_backend_torchtitan.host.portable import RULES
from primus_backend_torchtitan.host.schema import FILES, LIBRARY, portable_schema, schema_for
from primus_backend_torchtitan.sections import SECTIONS
from primus_core.discovery import installed_version
from primus_core.planning.settings import core_schema
from tests.torchtitan.experiments import MOCK, findings

ROOT = Path(__file__).parents[2]
EXTRACT = ROOT / "primus-backend-torchtitan/tools/extract_schema.py"
SHIPPED = ROOT / "primus-backend-torchtitan/src/primus_backend_torchtitan/schema"
INSTALLED = installed_version(LIBRARY)


@pytest.mark.skipif(INSTALLED is None or find_spec("torch") is None, reason="torchtitan or torch is not installed")
def test_schema_equals_the_installed_library(tmp_path: Path) -> None:
    """The script makes the shipped file, byte for byte, from the installed library."""
    made = tmp_path / "schema.json"
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    subprocess.run([sys.executable, str(EXTRACT), str(made)], check=True, env=environment, capture_output=True)
    assert made.read_text() == (SHIPPED / f"torchtitan-{INSTALLED}.json").read_text()


@pytest.mark.parametrize(
    ("name", "kind", "default"),
    [
        ("training.local_batch_size", "int", 8),
        ("training.max_norm", "float", 1.0),
        ("parallelism.tensor_parallel_degree", "int", 1),
        ("parallelism.module_fqns_per_model_part", "list[any]", None),
        ("parallelism.context_parallel_load_balancer", "str", "headtail"),
        ("activation_checkpoint.memory_budget", "float", 0.5),
        ("activation_checkpoint.kind", "str", "none"),
        ("compile.components", "list[str]", ["model", "loss"]),
        ("optimizer.optimizer_factory_kwargs_by_name", "map", {}),
        ("debug.seed", "int", None),
        ("optimizer.lr", "float", 0.0008),
        ("model.num_layers", "int", None),
    ],
)
def test_types_and_defaults(name: str, kind: str, default: object) -> None:
    """A parameter has the type and default of its field, at any depth; sections have a chooser."""
    parameter = schema_for("0.3.0").parameters[name]
    assert (parameter.type, parameter.default) == (kind, default)


def test_choices_are_those_of_the_annotation() -> None:
    """A field of a few words lists them; a section lists its kinds."""
    parameters = schema_for("0.3.0").parameters
    assert parameters["training.dtype"].choices == ("bfloat16", "float32")
    assert set(parameters["activation_checkpoint.kind"].choices) == set(SECTIONS["activation_checkpoint"].kinds)


def test_null_is_accepted_where_the_field_accepts_it() -> None:
    """``X | None`` can be null, whatever its default; any other field cannot."""
    parameters = schema_for("0.3.0").parameters
    assert parameters["parallelism.context_parallel_load_balancer"].nullable
    assert not parameters["training.steps"].nullable


def test_every_portable_name_has_a_row() -> None:
    """No portable parameter is left without a meaning or a reason, and every row leads to a parameter that exists."""
    assert set(RULES) == set(portable_schema().parameters)
    natives = {rule.native for rule in RULES.values() if rule.native}
    assert natives <= set(schema_for("0.3.0").parameters)
    assert all(rule.native or rule.why for rule in RULES.values())


@pytest.mark.parametrize("version", ["99.0", "0.4.0rc1", "main"])
def test_unknown_version_is_warned_of(version: str) -> None:
    """A library for which no file ships is read with the newest file, and the user hears of both versions."""
    (finding,) = findings(MOCK, version=version)
    assert (finding.severity, finding.cause) == ("warning", "dependency")
    assert f"{version} is not known" in finding.summary
    assert FILES.versions()[-1] in finding.summary


def test_no_name_belongs_to_core_and_torchtitan() -> None:
    """A parameter is read by core or by TorchTitan, never by both under one name."""
    for version in FILES.versions():
        assert not set(core_schema().parameters) & set(schema_for(version).parameters)


def test_schema_files_are_lean() -> None:
    """A schema is read on every start of ``primus run``: its help is one line for each parameter."""
    for path in SHIPPED.glob("*.json"):
        rows = json.loads(path.read_text())["parameters"]
        assert max(len(row.get("help", "")) for row in rows.values()) <= 120
