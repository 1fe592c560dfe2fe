"""The shipped schema of Megatron's parameters, compared with the installed library."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

import pytest

from primus_backend_megatron.host.schema import FILES, LIBRARY, OWN, schema_for
from primus_core.discovery import installed_version
from primus_core.planning.schemafiles import oldest_first
from primus_core.planning.settings import core_schema
from tests.megatron.experiments import MOCK, findings

ROOT = Path(__file__).parents[2]
EXTRACT = ROOT / "primus-backend-megatron/tools/extract_schema.py"
SHIPPED = ROOT / "primus-backend-megatron/src/primus_backend_megatron/schema"
INSTALLED = installed_version(LIBRARY)


@pytest.mark.skipif(INSTALLED is None or find_spec("torch") is None, reason="megatron-core or torch is not installed")
def test_schema_equals_the_installed_library(tmp_path: Path) -> None:
    """The script makes the shipped file, byte for byte, from the installed library."""
    made = tmp_path / "schema.json"
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "LOCAL_RANK": "3"}
    subprocess.run([sys.executable, str(EXTRACT), str(made)], check=True, env=environment, capture_output=True)
    assert made.read_text() == (SHIPPED / f"megatron-core-{INSTALLED}.json").read_text()


def test_every_parameter_of_the_namespace_is_there() -> None:
    """806 names, those that differ from their flag's spelling by their Namespace attribute, and those of Primus."""
    parameters = schema_for("0.19.2").parameters
    assert len(parameters) == 806 + len(OWN)
    assert {"layernorm_epsilon", "overlap_p2p_comm", "bias_swiglu_fusion", "special_tokens"} <= set(parameters)
    assert not {"norm_epsilon", "help", "no_bias_swiglu_fusion", "tokenizer_special_tokens"} & set(parameters)


@pytest.mark.parametrize(
    ("name", "kind", "default"),
    [
        ("num_layers", "int", None),
        ("layernorm_epsilon", "float", 1e-5),
        ("swiglu", "bool", False),
        ("bias_swiglu_fusion", "bool", True),
        ("optimizer", "str", "adam"),
        ("attention_backend", "str", "auto"),
        ("train_data_path", "list[str]", None),
        ("rampup_batch_size", "list[int]", None),
        ("moe_aux_loss_coeff", "list[float]", 0.0),
        ("moe_layer_freq", "any", 1),
    ],
)
def test_types_and_defaults(name: str, kind: str, default: object) -> None:
    """A parameter has the type and default that Megatron's own parser gives it."""
    parameter = schema_for("0.19.2").parameters[name]
    assert (parameter.type, parameter.default) == (kind, default)


def test_choices_are_names() -> None:
    """An enumeration is written by the names of its members, one of which is the default."""
    parameter = schema_for("0.19.2").parameters["attention_backend"]
    assert set(parameter.choices) == {"flash", "fused", "unfused", "local", "auto"}


def test_null_is_accepted_where_megatron_accepts_it() -> None:
    """``eval_iters: null`` is Megatron's own way to say no evaluation, though its default is 100."""
    parameters = schema_for("0.19.2").parameters
    assert parameters["eval_iters"].nullable
    assert parameters["save"].nullable
    assert not parameters["hidden_dropout"].nullable


def test_versions_are_ordered_by_release() -> None:
    """A candidate comes before its release, and 10 after 9."""
    versions = ("0.20.0", "0.19.10", "0.20.0rc1", "0.19.2")
    assert oldest_first(versions) == ("0.19.2", "0.19.10", "0.20.0rc1", "0.20.0")


@pytest.mark.parametrize("version", ["99.0", "0.20.0rc1", "0.19.3", "main"])
def test_unknown_version_is_warned_of(version: str) -> None:
    """A library for which no file ships is read with the newest file, and the user hears of both versions."""
    newest = FILES.versions()[-1]
    assert schema_for(version).version == newest
    (finding,) = findings(MOCK, version=version)
    assert finding.severity == "warning"
    assert f"{version} is not known" in finding.summary
    assert newest in finding.summary
    assert "pip install --upgrade primus-backend-megatron" in finding.remedy


@pytest.mark.parametrize("version", [*FILES.versions(), f"{FILES.versions()[0]}+rocm7"])
def test_known_version_needs_no_word(version: str) -> None:
    """A version that has a file is read with it, whoever built it."""
    assert schema_for(version).version == version.partition("+")[0]
    assert findings(MOCK, version=version) == []


def test_no_name_belongs_to_core_and_megatron() -> None:
    """A parameter is read by core or by Megatron, never by both under one name."""
    for version in FILES.versions():
        assert not set(core_schema().parameters) & set(schema_for(version).parameters)


def test_schema_files_are_lean() -> None:
    """A schema is read on every start of ``primus run``: its help is one line for each parameter."""
    for path in SHIPPED.glob("*.json"):
        rows = json.loads(path.read_text())["parameters"]
        assert max(len(row.get("help", "")) for row in rows.values()) <= 120
