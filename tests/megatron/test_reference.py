"""The experiments that users bring load as they are, and mean here what they mean there.

``reference.json`` beside this file is the reviewed table of what differs and of what the user hears.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator, Mapping
from importlib.util import find_spec
from pathlib import Path

import pytest

from primus_backend_megatron.host.foreign import foreign_keys
from primus_backend_megatron.host.schema import schema_for
from primus_core.experiment import Value
from primus_core.plan import Translation
from primus_core.planning.settings import core_schema
from tests.megatron.experiments import translate
from tests.megatron.references import Reference, megatron_references, needs_reference, typed

pytestmark = needs_reference

SCHEMA = schema_for("0.19.2").parameters
TABLE = json.loads(Path(__file__).with_name("reference.json").read_text(encoding="utf-8"))
TOTAL = 80
WORDS = {"framework", "model", "bases"}
"""What an experiment says of a module beside its parameters; `bases` is dead there as well."""
WHERE_MEGATRON_IS = {"experimental_attention_variant": 2}
"""What lacks a package beside Megatron: on a host without Megatron nobody can tell."""


def translation_of(reference: Reference) -> Translation:
    assert reference.judged.translation is not None, [str(error) for error in reference.judged.failures]
    return reference.judged.translation


def used(reference: Reference, name: str) -> Value:
    """What Megatron is given: a value of the translation, or its own default."""
    parameter = SCHEMA[name]
    return typed(parameter, translation_of(reference).native.get(name, parameter.default))


def compared(reference: Reference) -> Iterator[tuple[str, str]]:
    """The names whose values are compared: there, and Megatron's own."""
    for name in reference.wanted:
        row = foreign_keys().get(name)
        if name in SCHEMA:
            yield name, name
        elif row and row.native and row.native not in reference.wanted:
            yield name, row.native


def differing(reference: Reference) -> list[str]:
    """Megatron's names of the parameters that have another value than they are meant to have."""
    pairs = compared(reference)
    return [own for name, own in pairs if used(reference, own) != reference.typed(name, SCHEMA[own])]


def test_every_experiment_loads() -> None:
    """None has an error but for what the installation cannot build."""
    references = megatron_references()
    assert len(references) == TOTAL
    wrong = {
        reference.name: [str(error) for error in reference.judged.errors]
        + [finding.summary for finding in reference.judged.findings if _is_fault(finding.severity, finding.cause)]
        for reference in references
    }
    assert {name: problems for name, problems in wrong.items() if problems} == {}


def _is_fault(severity: str, cause: str) -> bool:
    return severity == "error" and cause not in ("dependency", "unsupported")


def test_every_value_is_what_it_was() -> None:
    """Each parameter that Megatron has gets the value that it had, but for the reviewed exceptions."""
    found = Counter(name for reference in megatron_references() for name in differing(reference))
    assert found == {row["key"]: row["files"] for row in TABLE["values"]}


def test_every_parameter_is_known() -> None:
    """What a file says that reaches nothing is reviewed: what it is, and in how many files the user hears of it."""
    found = Counter(
        (row.path, row.severity) for reference in megatron_references() for row in translation_of(reference).unused
    )
    assert found == {(row["key"], row["told"]): row["files"] for row in TABLE["unused"]}


def test_everything_that_was_known_is_known() -> None:
    """Each name that an experiment resolves to there, presets included, is Megatron's, core's or reviewed here."""
    known = {*SCHEMA, *foreign_keys(), *core_schema().parameters, *WORDS}
    assert {name for reference in megatron_references() for name in reference.wanted} <= known


def test_every_value_written_out_loads() -> None:
    """A file that sets everything that an experiment resolves to there loads as the experiment does."""
    for reference in megatron_references():
        written = {name: value for name, value in flat(reference.wanted) if name not in WORDS}
        for name in ("vocab_size", "auto_continue_train"):  # null there; and of an environment variable
            written[name] = translation_of(reference).native.get(name, False)
        translation = translate(written, accelerator="cuda")
        assert translation.native["num_layers"] == reference.wanted["num_layers"]


def flat(values: Mapping[str, Value], prefix: str = "") -> Iterator[tuple[str, Value]]:
    """Maps as dotted names."""
    for name, value in values.items():
        if isinstance(value, dict) and value:
            yield from flat(value, f"{prefix}{name}.")
        else:
            yield prefix + name, value


def test_every_model_that_cannot_be_built_is_named() -> None:
    """What the installation cannot build is reviewed: which parameter asks for it, and in how many files."""
    found = Counter(
        line.partition(":")[0].strip("`")
        for reference in megatron_references()
        for finding in reference.judged.findings
        for line in finding.evidence.splitlines()
        if finding.cause in ("dependency", "unsupported")
    )
    if find_spec("megatron") is None:
        found.update({name: WHERE_MEGATRON_IS[name] for name in WHERE_MEGATRON_IS})
    assert found == {row["key"]: row["files"] for row in TABLE["needs"]}


def test_every_exception_has_a_reason() -> None:
    """A row without a sentence is not reviewed."""
    assert all(len(row["why"]) > 10 for row in [*TABLE["values"], *TABLE["needs"]])
    assert all(row["key"] in SCHEMA for row in TABLE["values"])
    keys = [row["key"] for row in TABLE["values"]]
    assert len(keys) == len(set(keys))


@pytest.mark.skipif(not find_spec("megatron") or not find_spec("torch"), reason="Megatron or torch is not installed")
def test_megatron_accepts_every_experiment() -> None:
    """Megatron's own validation takes each translation, as on a GPU with Transformer Engine."""
    plans = [
        (reference.name, reference.judged.target, translation_of(reference)) for reference in megatron_references()
    ]
    lines = [
        json.dumps(
            {
                "native": dict(translation.native),
                "ranks": target.world_size if target else 1,
                "environment": dict(translation.environment),
            }
        )
        for _, target, translation in plans
    ]
    done = subprocess.run(
        [sys.executable, str(Path(__file__).with_name("judge.py")), "--transformer-engine"],
        input="\n".join(lines),
        env={**os.environ, "OMP_NUM_THREADS": "1"},
        stdout=subprocess.PIPE,
        text=True,
        check=True,
    )
    refusals = dict(zip([name for name, *_ in plans], json.loads(done.stdout), strict=True))
    assert {name: why for name, why in refusals.items() if why} == {}
