"""Every spelling of an override is the same override; options of Primus itself come first."""

from __future__ import annotations

import tempfile
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from primus_core.cli.arguments import name_options, run_parser
from primus_core.cli.output import assignments
from primus_core.errors import ConfigError, ErrorGroup, RunError
from primus_core.experiment import Leaf
from tests.core.resolving import OVERRIDES, resolved

PARSER = run_parser("primus run", "")
KEYS = st.lists(st.from_regex(r"[a-z][a-z0-9_]{0,6}", fullmatch=True), min_size=1, max_size=3).map(".".join)
WORDS = st.sampled_from(
    ["1e-5", "0123", "-1", "true", "null", "", "no", "[1, no, 0123]", "{x: 1e5}", "a=b", "'50'", "8:00"]
) | st.text(st.characters(codec="utf-8", exclude_categories=["Cc"]), max_size=8)


def overrides(*words: str) -> list[str]:
    args = PARSER.parse_intermixed_args(words)
    assert args.experiment == "exp.yaml"
    return list(args.overrides)


@settings(max_examples=50, deadline=None, database=None)
@given(KEYS.filter(lambda key: f"--{key}" not in PARSER.options), WORDS)
@example("train_iters", "-1e-5")
@example("a_b.c_d", "-")
def test_all_spellings_are_one(key: str, value: str) -> None:
    """``key=value``, ``--key value``, ``--key=value`` and dashes for underscores say the same, wherever they stand."""
    wanted = ["seed=1", f"{key}={value}"]
    dashes = f"--{key.replace('_', '-')}"
    assert overrides("exp.yaml", *wanted) == wanted
    assert overrides("exp.yaml", "seed=1", f"--{key}={value}") == wanted
    assert overrides("--seed", "1", f"{dashes}={value}", "--nproc", "2", "exp.yaml") == wanted
    if not value.startswith("-") or value[1:2].isdigit():
        assert overrides("exp.yaml", "--seed=1", f"--{key}", value) == wanted
        assert overrides("--dry-run", "--seed", "1", dashes, value, "exp.yaml", "--debug") == wanted


def leaves(*words: str) -> dict[str, Leaf]:
    with tempfile.TemporaryDirectory() as folder:
        exp = f"{OVERRIDES}      data: [a, b]\n      rope: {{base: 5}}\n"
        return dict(resolved(Path(folder), exp, *words).modules["pre_trainer"].params)


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("a.b=1", "a={b: 1}"),
        ("rope.base=0123", "rope={base: 0123}"),
        ("data=[x]", "modules.pre_trainer.overrides.data=[x]"),
        ("lr=1e-5", "modules={pre_trainer: {overrides: {lr: 1e-5}}}"),
        ("model.flavor=8B", "modules.pre_trainer.overrides.model.flavor=8B"),
        ("model.flavor=8B", "model={flavor: 8B}"),
    ],
)
def test_paths_and_maps_are_one(one: str, other: str) -> None:
    """A dotted path and a map in brackets set the same leaf, and nothing beside it."""
    assert leaves(one) == leaves(other)


def test_what_an_override_replaces() -> None:
    """A list replaces a list, a map is merged, null is null, and the last word for a key counts."""
    got = {key: leaf.value for key, leaf in leaves("data=[c]", "rope={scale: 9}", "lr=2", "lr=null", "n=-1").items()}
    assert got == {"data": ["c"], "rope.base": 5, "rope.scale": 9, "lr": None, "hidden_size": 128, "n": -1}


def test_later_spellings_win() -> None:
    """The order of the words counts, whatever their spelling."""
    assert overrides("--lr", "2", "lr=1", "exp.yaml", "--lr=3") == ["lr=2", "lr=1", "lr=3"]
    assert overrides("exp.yaml", "lr=1", "--lr", "2", "lr=3") == ["lr=1", "lr=2", "lr=3"]


def test_own_options_come_first() -> None:
    """A word that is an option of the command is never a parameter."""
    args = PARSER.parse_intermixed_args(["exp.yaml", "--nproc", "2", "--env", "A=1", "--lr", "3"])
    assert (args.nproc, args.env, args.overrides) == (2, ["A=1"], ["lr=3"])


@pytest.mark.parametrize(
    ("words", "what", "remedy"),
    [
        (["--nprocs"], "--nprocs has no value", "did you mean --nproc?"),
        (["--dryrun", "--debug"], "--dryrun has no value", "did you mean --dry-run?"),
        (["--bf16"], "--bf16 has no value", "write --bf16=true, or what it shall be"),
        (["--nproc"], "argument --nproc: expected one argument", "--help` lists"),
        (["--nproc", "two"], "argument --nproc: invalid int value: 'two'", "--help` lists"),
        (["-x"], "unrecognized arguments: -x", "--help` lists"),
    ],
)
def test_broken_options(words: list[str], what: str, remedy: str) -> None:
    """An option without its value is told, with the option that was meant."""
    with pytest.raises(ConfigError, match=what) as raised:
        overrides("exp.yaml", *words)
    assert remedy in raised.value.remedy


def test_a_mistyped_option_is_named() -> None:
    """An unknown parameter that was written like an option is answered with the option, others are left alone."""
    unknown = ConfigError("unknown parameter `nprocs`", where="command line", remedy="remove it")
    near = ConfigError("unknown parameter `run_ids`", remedy="did you mean `run_id`?")
    other = ConfigError("unknown parameter `lrr`", remedy="did you mean `lr`?")
    argv = ["run", "exp.yaml", "--nprocs", "2", "--run-ids=x", "lrr=3"]
    group = name_options(ErrorGroup([unknown, near, other]), argv)
    assert isinstance(group, ErrorGroup)
    assert [error.remedy for error in group.errors] == [
        "did you mean --nproc?",
        "did you mean --run-id? As a parameter, did you mean `run_id`?",
        "did you mean `lr`?",
    ]
    assert name_options(unknown, argv).where == "command line"
    failed = RunError("unknown failure `nprocs`")
    assert name_options(failed, argv) is failed
    assert name_options(unknown, ["run", "nprocs=2"]) is unknown


def test_secrets_in_every_spelling_are_known() -> None:
    """What a word sets is known, so that an error does not echo a secret."""
    assert assignments(["--env.HF_TOKEN", "a", "env.B_KEY=b", "--env.C_KEY=c", "x"]) == {
        "HF_TOKEN": "a",
        "B_KEY": "b",
        "C_KEY": "c",
    }
