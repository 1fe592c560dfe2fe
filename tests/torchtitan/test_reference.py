"""The experiments for TorchTitan 0.2 that users bring load as they are, and mean here what they mean there.

``reference.json`` beside this file is the reviewed table of what differs and of what the user hears.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from pathlib import Path

import attrs
from jsonschema import Draft202012Validator

from primus_backend_torchtitan import host
from primus_backend_torchtitan.host.flavors import NAMES as FLAVOR
from primus_backend_torchtitan.host.flavors import flavor_of, flavors
from primus_backend_torchtitan.host.foreign import foreign_keys
from primus_backend_torchtitan.host.schema import schema_for
from primus_core import discovery
from primus_core.experiment import Leaf, Origin, Value
from primus_core.explain.editor import experiment_schema
from primus_core.explain.vocabulary import vocabulary
from primus_core.hooks import load_host
from primus_core.plan import Translation
from primus_core.planning.settings import core_schema
from primus_core.projection.fullysharded import static_of
from primus_core.resolve import preset_parameters
from primus_core.testing.shapes import shape_problems
from primus_core.yamlfile import load
from tests.megatron.references import FOLDER, Reference, needs_reference, references_for, typed
from tests.torchtitan.experiments import translate

pytestmark = needs_reference

SCHEMA = schema_for("0.3.0").parameters
TABLE = json.loads(Path(__file__).with_name("reference.json").read_text(encoding="utf-8"))
TOTAL = 25
NOWHERE = Origin(file="reference")
SIZES = ("num_layers", "hidden_size", "num_attention_heads", "num_experts", "vocab_size", "ffn_hidden_size")
CONVERTERS = "model.converters"


def references() -> tuple[Reference, ...]:
    return references_for("torchtitan")


def flat(values: Mapping[str, Value], prefix: str = "") -> Iterator[tuple[str, Value]]:
    """Maps as dotted names."""
    for name, value in values.items():
        if isinstance(value, dict) and value:
            yield from flat(value, f"{prefix}{name}.")
        else:
            yield prefix + name, value


def wanted(reference: Reference) -> dict[str, Value]:
    """What an experiment means where it comes from, by the names of 0.2."""
    return {name: value for name, value in flat(reference.wanted) if name != "framework"}


def translation_of(reference: Reference) -> Translation:
    assert reference.judged.translation is not None, [str(error) for error in reference.judged.failures]
    return reference.judged.translation


def used(reference: Reference, name: str) -> Value:
    """What TorchTitan is given: a value of the translation, or its own default."""
    native = translation_of(reference).native
    if name == "lr_scheduler.decay_type" and native.get("lr_scheduler.kind") != "native":
        name = "lr_scheduler.decay_style"  # of Megatron's formula
    return native.get(name, SCHEMA[name].default)


def native_name(name: str) -> str | None:
    """TorchTitan's present name of one that was known."""
    row = foreign_keys().get(name)
    return name if name in SCHEMA else row.native if row and row.fate == "alias" else None


def compared(reference: Reference) -> Iterator[tuple[str, str]]:
    """The names whose values are compared: there, and TorchTitan's present ones."""
    for name in wanted(reference):
        native = native_name(name)
        if native and name != CONVERTERS:
            yield name, native


def differing(reference: Reference) -> set[str]:
    """Present names of the parameters that have another value than they are meant to have."""
    values = wanted(reference)
    return {
        native for name, native in compared(reference) if used(reference, native) != typed(SCHEMA[native], values[name])
    }


def test_every_experiment_loads() -> None:
    """None has an error but for what this back end cannot build."""
    assert len(references()) == TOTAL
    wrong = {
        reference.name: [str(error) for error in reference.judged.errors]
        + [
            finding.summary
            for finding in reference.judged.findings
            if finding.severity == "error" and finding.cause not in ("dependency", "unsupported")
        ]
        for reference in references()
    }
    assert {name: problems for name, problems in wrong.items() if problems} == {}


def test_every_experiment_has_a_shape() -> None:
    """The back end tells one of each, also of models that TorchTitan cannot build, and no figure is below zero."""
    for reference in references():
        assert reference.judged.plan is not None
        shape = host.model_shape(reference.judged.plan)
        assert shape is not None
        assert list(shape_problems(shape)) == []
        assert min(attrs.astuple(static_of(shape, 0))) >= 0
        assert static_of(shape, 0).weights > 0


def test_every_value_is_what_it_was() -> None:
    """Each parameter that TorchTitan has gets the value that it had, but for the reviewed exceptions."""
    found = Counter(name for reference in references() for name in differing(reference))
    assert found == {row["key"]: row["files"] for row in TABLE["values"]}


def test_every_value_is_what_it_was_with_the_defaults_of_torchtitan() -> None:
    """With `config: torchtitan_0.2.yaml` what a file leaves out is what it was too; what remains is about folders."""
    experiments = references_for("torchtitan", overrides=("config=torchtitan_0.2.yaml",))
    found = Counter(name for reference in experiments for name in differing(reference))
    assert found == {row["key"]: row["always"] for row in TABLE["values"] if "always" in row}


def test_every_parameter_is_known() -> None:
    """What a file says that reaches nothing is reviewed: what it is, and in how many files the user hears of it."""
    found = Counter(
        (row.path, row.severity)
        for reference in references()
        for row in translation_of(reference).unused
        if reference.judged.module.params[row.path].origin.layer not in ("preset", "model")
    )
    assert found == {(row["key"], row["told"]): row["files"] for row in TABLE["unused"]}


def test_everything_that_was_known_is_known() -> None:
    """Each name that an experiment resolves to there, presets included, is TorchTitan's, core's or reviewed here."""
    known = {*SCHEMA, *foreign_keys(), *core_schema().parameters}
    assert {name for reference in references() for name in wanted(reference)} <= known


def test_every_model_is_the_one_that_was_meant() -> None:
    """The architecture is that of the flavor which upstream's preset names, experts balanced as there."""
    for reference in references():
        values = wanted(reference)
        named = {name: Leaf(value=values[name], origin=NOWHERE) for name in FLAVOR}
        sizes = {f"model.{name}": leaf.value for name, leaf in flavor_of(named)[1].items()}
        have = {name: used(reference, name) for name in sizes}
        assert have == {name: typed(SCHEMA[name], value) for name, value in sizes.items()}, reference.name


def test_experts_are_balanced() -> None:
    """TorchTitan 0.2 balanced every mixture of experts by a bias that moves by 0.001; so does each of them here."""
    mixtures = [one for one in references() if used(one, "model.num_experts")]
    assert len(mixtures) == sum(
        wanted(one)["model.name"] in ("deepseek_v3", "gpt_oss", "llama4") for one in references()
    )
    for reference in mixtures:
        assert used(reference, "model.moe_router_enable_expert_bias") is True
        assert used(reference, "model.moe_router_bias_update_rate") == 1e-3


def test_float8_is_where_it_was() -> None:
    """Linear layers are in float8 where a file's preset says so, and nowhere else."""
    for reference in references():
        entries = used(reference, CONVERTERS)
        kinds = [entry["kind"] for entry in entries if isinstance(entry, dict)] if isinstance(entries, list) else []
        there = wanted(reference)[CONVERTERS]
        assert isinstance(there, list)
        assert kinds == ["float8_linear"] * ("quantize.linear.float8" in there), reference.name


def test_every_model_that_cannot_be_built_is_named() -> None:
    """What this back end cannot build is reviewed: which parameter asks for it, and in how many files."""
    found = Counter(
        line.partition(":")[0].strip("`")
        for reference in references()
        for finding in reference.judged.findings
        for line in finding.evidence.splitlines()
        if finding.check == "torchtitan.model"
    )
    assert found == {row["key"]: row["files"] for row in TABLE["needs"]}


def test_every_value_written_out_loads() -> None:
    """A file that sets everything that an experiment resolves to there has the values of the experiment."""
    for reference in references():
        written = wanted(reference)
        written["sink_level"] = None
        translation = translate(written, accelerator="cuda", ranks=8)
        assert translation.native["training.seq_len"] == written["training.seq_len"]
        assert translation.native["lr_scheduler.min_lr_factor"] == written["lr_scheduler.min_lr_factor"]
        assert translation.native["model.num_layers"] == used(reference, "model.num_layers")
        assert translation.native["activation_checkpoint.kind"] == written["activation_checkpoint.mode"]


def test_an_editor_knows_every_name() -> None:
    """The JSON Schema of experiments for TorchTitan finds nothing wrong with any of them, former names included."""
    hosts = load_host(discovery.scan(), backend="torchtitan", launcher=None, preflight=False)
    validator = Draft202012Validator(experiment_schema("torchtitan", vocabulary(hosts, "0.3.0")))
    for path in sorted(FOLDER.glob("experiments/torchtitan/*/*.yaml")):
        assert [error.message for error in validator.iter_errors(load(str(path)).value)] == [], path.name


def test_every_preset_has_the_model_that_it_names() -> None:
    """Each model preset that such files can name is found, and describes the flavor that it names there."""
    facts = json.loads((FOLDER / "model-facts.json").read_text(encoding="utf-8"))["torchtitan"]
    folders = discovery.preset_dirs(discovery.scan(), "torchtitan")
    assert len(facts) == 33
    for name, there in facts.items():
        found = preset_parameters(config="pre_trainer.yaml", model=name, env={}, folders=folders, cwd=str(FOLDER))
        words = {f"model.{key}": Leaf(value=there["model"][key], origin=NOWHERE) for key in ("name", "flavor")}
        sizes = {key: leaf.value for key, leaf in flavor_of(words)[1].items() if key in SIZES}
        assert {key: found[key].value for key in sizes} == sizes, name


def test_every_exception_has_a_reason() -> None:
    """A row without a sentence is not reviewed."""
    assert all(len(row["why"]) > 10 for row in [*TABLE["values"], *TABLE["needs"]])
    assert all(row["key"] in SCHEMA for row in TABLE["values"])


def test_every_flavor_has_a_preset_that_is_read() -> None:
    """Each row of the table of flavors names a preset with an architecture."""
    for name, of_model in flavors().items():
        for flavor in of_model:
            words = zip(FLAVOR, (name, flavor), strict=True)
            leaves = {key: Leaf(value=value, origin=NOWHERE) for key, value in words}
            assert "num_layers" in flavor_of(leaves)[1]
