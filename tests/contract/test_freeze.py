"""What plugins build on changes only by addition, and never unseen."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from typing import Any

import pytest

from tests.contract.freeze import FILE, current

FROZEN = json.loads(FILE.read_text(encoding="utf-8"))
BROKEN = "This breaks plugins that are installed: take it back, or give the contract a new number and file."
ADDED = "An addition is reviewed: `python -m tests.contract.freeze` writes it to the file; commit both together."


def removed_or_changed(frozen: Any, now: Any, path: str = "") -> Iterator[str]:
    """What a plugin may rely on and would no longer find, or find different."""
    if isinstance(frozen, dict) and isinstance(now, dict):
        for key, value in frozen.items():
            where = f"{path}.{key}"
            yield from [f"{where} is gone"] if key not in now else removed_or_changed(value, now[key], where)
    elif isinstance(frozen, list) and isinstance(now, list):
        yield from (f"{path}: {item} is gone" for item in frozen if item not in now)
    elif frozen != now:
        yield f"{path} was {frozen!r}, is {now!r}"


def demanded(frozen: Any, now: Any) -> Iterator[str]:
    """New fields and arguments that existing plugins do not give."""
    for kind, fields in frozen["types"].items():
        for name in now["types"].get(kind, {}).keys() - fields.keys():
            if not now["types"][kind][name].endswith(", optional"):
                yield f"types.{kind}.{name} is new and has no default"


def test_nothing_of_the_contract_is_removed_or_changed() -> None:
    """Hooks, arguments, fields, their types and the choices that plugins know are all there."""
    now = json.loads(json.dumps(current()))
    assert [*removed_or_changed(FROZEN, now), *demanded(FROZEN, now)] == [], BROKEN


def test_every_addition_is_in_the_reviewed_file() -> None:
    """The file holds the contract as it is."""
    assert list(removed_or_changed(json.loads(json.dumps(current())), FROZEN)) == [], ADDED


@pytest.mark.parametrize(
    ("path", "told"),
    [
        ("hooks.HostSpec.launch", "hooks.HostSpec.launch is gone"),
        ("hooks.HostSpec.translate_config.arguments.target", "arguments.target is gone"),
        ("hooks.RankSpec.patch_backend.returns", "returns is gone"),
        ("rank.methods.metrics.arguments.row", "arguments.row is gone"),
        ("types.Translation.native", "types.Translation.native is gone"),
        ("choices.Severity", "choices.Severity is gone"),
        ("errors.ConfigError.arguments.remedy", "arguments.remedy is gone"),
        ("helpers.check.arguments.also", "arguments.also is gone"),
        ("metrics.loss", "metrics.loss is gone"),
    ],
)
def test_what_is_taken_away_is_told(path: str, told: str) -> None:
    """Each part of the contract is frozen: without it the comparison names it."""
    now = copy.deepcopy(FROZEN)
    *parents, last = path.split(".")
    inner = now
    for parent in parents:
        inner = inner[parent]
    del inner[last]
    (problem,) = removed_or_changed(FROZEN, now)
    assert problem.endswith(told)


def test_a_new_field_needs_a_default() -> None:
    """A field that plugins do not give yet must not be demanded of them; an optional one may come."""
    now = copy.deepcopy(FROZEN)
    now["types"]["Process"] |= {"cwd": "str, optional", "user": "str"}
    assert list(removed_or_changed(FROZEN, now)) == []
    assert list(demanded(FROZEN, now)) == ["types.Process.user is new and has no default"]


def test_a_changed_type_is_told() -> None:
    """A field that holds something else is a change, as is a literal that lost a value."""
    now = copy.deepcopy(FROZEN)
    now["types"]["Process"]["argv"] = "list[str]"
    now["choices"]["Severity"].remove("warning")
    assert len(list(removed_or_changed(FROZEN, now))) == 2
