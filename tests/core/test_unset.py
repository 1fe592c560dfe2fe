"""Keys that are taken away: ``!unset``, and null where a parameter cannot be null."""

from __future__ import annotations

from pathlib import Path

import pytest

from primus_core.errors import ConfigError
from primus_core.experiment import Leaf, Origin
from primus_core.parameters import check, cleared, load_schema
from primus_core.yamlfile import Unset, loads, parse_text
from tests.core.resolving import HEAD, MODULE, OVERRIDES, refused, resolved, values

HERE = Origin(file="exp.yaml", line=7)
SCHEMA = load_schema(
    '{"library": "l", "version": "1", "parameters": {'
    '"flag": {"type": "bool", "default": false}, "lr": {"type": "float", "default": null}, '
    '"group.size": {"type": "int", "default": 1}, "extra": {"type": "map", "default": {}}}}'
)


def test_unset_takes_away_what_a_preset_set(tmp_path: Path) -> None:
    """A preset's key, an entry of its map and a whole map can be taken away, also on the command line."""
    assert values(resolved(tmp_path, OVERRIDES + "      lr: !unset\n      rope.scale: !unset\n")) == {
        "rope.base": 2,
        "hidden_size": 128,
    }
    assert values(resolved(tmp_path, OVERRIDES + "      rope: !unset\n", "lr=!unset")) == {"hidden_size": 128}


def test_a_key_that_was_taken_away_can_be_set_again(tmp_path: Path) -> None:
    """What a stronger layer sets stands alone: nothing of the map below comes back."""
    below = OVERRIDES + "      rope: !unset\n      lr: !unset\n"
    experiment = resolved(tmp_path, "extends: below.yaml\n", "rope.base=9", "lr=5", below=below)
    assert values(experiment) == {"rope.base": 9, "lr": 5, "hidden_size": 128}


def test_sections_and_modules_can_be_taken_away(tmp_path: Path) -> None:
    """An inherited module, section, variable or block of overrides is gone."""
    below = (
        f"{OVERRIDES}      lr: 7\n  sft_trainer: {{framework: x, config: y, model: z}}\n"
        "env: {A: a, B: b}\ndirect: {gpus_per_node: 2}\n"
    )
    above = (
        "extends: below.yaml\nenv: {A: !unset }\ndirect: !unset\n"
        "modules: {sft_trainer: !unset , pre_trainer: {overrides: !unset }}\n"
    )
    experiment = resolved(tmp_path, above, below=below)
    assert list(experiment.modules) == ["pre_trainer"]
    assert values(experiment)["lr"] == 1
    assert (list(experiment.env), experiment.launchers) == (["B"], {})
    assert (
        str(refused(tmp_path, above, "modules.pre_trainer=!unset", below=below)[0]) == "exp.yaml: `modules` is missing"
    )


@pytest.mark.parametrize(
    ("exp", "what", "remedy"),
    [
        (
            OVERRIDES + "      hiden_size: !unset\n",
            "exp.yaml:11: `!unset` takes away `hiden_size`, which",
            "hidden_size",
        ),
        (HEAD + MODULE + "env: {A: !unset}\n", "exp.yaml:10: not valid YAML", "put a blank after `!unset`"),
        (
            HEAD + MODULE + "env: {A: !unset }\n",
            "exp.yaml:10: `!unset` takes away `env.A`, which nothing sets",
            "remove",
        ),
        (OVERRIDES + "      lr: !unset 5\n", "exp.yaml:11: `!unset` takes no value", "write `key: !unset`"),
        (
            OVERRIDES + "      lr: [1, !unset ]\n",
            "exp.yaml:11: `!unset` takes a key away, and a list",
            "a list replaces",
        ),
        (
            OVERRIDES + "      x: &x {a: !unset }\n      y: [*x]\n",
            "exp.yaml:12: `!unset` takes a key",
            "a list replaces",
        ),
        ("extends: !unset\n" + HEAD + MODULE, "exp.yaml:1: `extends` takes a file name", "extends: base.yaml"),
        (
            HEAD + MODULE.replace("megatron", "!unset"),
            "exp.yaml: `modules.pre_trainer.framework` is missing",
            "framework",
        ),
    ],
)
def test_what_cannot_be_taken_away(tmp_path: Path, exp: str, what: str, remedy: str) -> None:
    """A key that nobody set, a value beside the tag and an element of a list are errors with their line."""
    error = refused(tmp_path, exp)[0]
    assert str(error).startswith(what)
    assert remedy in error.remedy


def test_unset_is_a_node_of_its_own() -> None:
    """The reader tells `!unset` from null and from the text in quotes."""
    entries = loads("a: !unset\nb: '!unset'\nc:\n", "f.yaml").entries
    assert isinstance(entries["a"], Unset)
    assert (entries["b"].value, entries["c"].value) == ("!unset", None)
    assert isinstance(parse_text(" !unset", HERE), Unset)
    assert parse_text("'!unset'", HERE).value == "!unset"


def test_null_takes_back_a_parameter_that_cannot_be_null() -> None:
    """Null is a value of nullable parameters; of others, and of groups, it leaves the library's default."""
    params = {name: Leaf(value=None, origin=HERE) for name in ("flag", "lr", "group", "extra.a")}
    values_, errors = check(params, SCHEMA)
    assert not errors
    assert values_ == {"lr": None, "extra": {"a": None}}
    assert cleared(params, values_) == ["flag", "group"]


def test_null_has_to_name_a_parameter() -> None:
    """An unknown name is an error, whatever its value."""
    _, (error,) = check({"flags": Leaf(value=None, origin=HERE)}, SCHEMA)
    assert isinstance(error, ConfigError)
    assert error.remedy == "did you mean `flag`?"
