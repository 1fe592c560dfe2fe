"""What portable parameters mean to TorchTitan: the same as to every back end, or what is its own habit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from primus_backend_megatron.host.schema import schema_for as megatron_schema
from primus_backend_torchtitan.architecture import DEFAULTS
from primus_backend_torchtitan.host.portable import ARCHITECTURE, RULES
from primus_backend_torchtitan.host.schedule import NEVER
from primus_backend_torchtitan.host.schema import schema_for
from primus_backend_torchtitan.host.semantics import SHARED_DEFAULTS
from primus_core.errors import ConfigError
from primus_core.experiment import Value
from tests.megatron import experiments as megatron
from tests.torchtitan.experiments import MOCK, VERSION, translate
from tests.torchtitan.ranks import Ranks

NATIVE: dict[str, Value] = {"semantics": "native"}
LEAST = {name: value for name, value in MOCK.items() if name not in ("min_lr", "lr_decay_style", "seed")}
"""Nothing that every back end has a default for."""

PORTABLE = {rule.native: name for name, rule in RULES.items() if rule.native}
THEIRS = {name: parameter.default for name, parameter in megatron_schema(megatron.VERSION).parameters.items()}


def used(params: dict[str, Value]) -> dict[str, Value]:
    """Every parameter as TorchTitan will have it."""
    return {**schema_for(VERSION).defaults, **translate(params).native}


@pytest.mark.parametrize("native", SHARED_DEFAULTS)
def test_what_nobody_sets_is_megatrons_default(native: str) -> None:
    """An experiment that leaves a portable parameter out means the same with both; TorchTitan's default is another."""
    name = PORTABLE[native]
    words = RULES[name].words
    assert used(LEAST)[native] == (words[THEIRS[name]] if words else THEIRS[name])


def test_an_architecture_that_is_left_open_is_megatrons() -> None:
    """What a model preset leaves out is the same for both."""
    groups = {"group_query_attention": None, "num_query_groups": None}  # left open: every head is its own group
    theirs = {**THEIRS, **groups}
    shared = [name for name in ARCHITECTURE if name in DEFAULTS and name in theirs]
    unlike = {name for name in shared if DEFAULTS[name] not in (theirs[name], [theirs[name]])}
    assert len(shared) > 20
    assert unlike == set()


def test_what_was_made_to_mean_the_same_is_told() -> None:
    """Each default that is not TorchTitan's own has a row with its reason; a value that was set has none."""
    rows = {row.native: row for row in translate(LEAST).adjusted}
    assert (rows["optimizer.beta2"].used, rows["optimizer.beta2"].asked) == (0.999, None)
    assert rows["optimizer.beta2"].why == "nobody set it; the same in every back end"
    assert "optimizer.beta2" not in {row.native for row in translate({**LEAST, "adam_beta2": 0.95}).adjusted}


def test_groups_of_ones_own_are_left_alone() -> None:
    """TorchTitan's own groups say everything about the optimizer."""
    group: dict[str, Any] = {"pattern": ".*", "optimizer_name": "AdamW", "optimizer_kwargs": {"lr": 0.1}}
    native = translate({**LEAST, "optimizer.param_groups": [group]}).native
    assert "optimizer.weight_decay" not in native
    assert "optimizer.decay_norms" not in translate({**LEAST, **NATIVE, "optimizer.param_groups": [group]}).native


def test_masks_bring_positions_with_them() -> None:
    """TorchTitan makes its masks of positions; rotary ones are relative, so nothing else changes, and it is told."""
    translation = translate({**MOCK, "reset_attention_mask": True})
    assert translation.native["dataloader.documents"] is True
    (row,) = [row for row in translation.adjusted if row.native == "dataloader.document_positions"]
    assert "rotary ones are relative" in row.why
    both = translate({**MOCK, "reset_attention_mask": True, "reset_position_ids": True})
    assert {"reset_attention_mask", "reset_position_ids"} <= {row.path for row in both.mapping}


def test_positions_without_masks_are_refused() -> None:
    """They would bring masks that nobody asked for."""
    with pytest.raises(ConfigError) as caught:
        translate({**MOCK, "reset_position_ids": True})
    assert caught.value.what == "`reset_position_ids` is true and `reset_attention_mask` is not"
    assert "reset_attention_mask: true" in caught.value.remedy


@pytest.mark.parametrize(
    ("asked", "batches", "interval"),
    [
        ({"eval_interval": 5}, 400, 5),
        ({"eval_iters": 3}, 12, NEVER),
        ({"eval_iters": 3, "eval_interval": 5}, 12, 5),
        ({"eval_interval": 5, "eval_iters": 0}, None, None),
        ({}, None, None),
    ],
)
def test_evaluation_is_asked_for_as_with_megatron(
    asked: dict[str, Value], batches: int | None, interval: int | None
) -> None:
    """Either parameter asks for it, and what the other one is then is the same; TorchTitan counts local batches."""
    ours = used({**MOCK, **asked})
    theirs = {**THEIRS, **megatron.translate({**megatron.MOCK, **asked}).native}
    if batches is None:
        assert (ours["validator.enable"], theirs["eval_iters"]) == (False, 0)
    else:
        assert (ours["validator.enable"], ours["validator.steps"], ours["validator.freq"]) == (True, batches, interval)
        assert (theirs["eval_iters"], theirs["eval_interval"]) == (batches // 4, interval)


def test_habits_are_kept_where_that_is_asked_for() -> None:
    """`semantics: native` leaves TorchTitan its defaults, decays every weight, pads nothing, keeps documents apart."""
    native = used({**LEAST, **NATIVE})
    library = schema_for(VERSION).defaults
    same = ("optimizer.beta2", "optimizer.weight_decay", "lr_scheduler.warmup_steps", "training.mixed_precision_param")
    assert {name: native[name] for name in same} == {name: library[name] for name in same}
    assert native["debug.seed"] is None
    assert native["optimizer.decay_norms"] is True
    assert native["model.padded_vocab_size"] == 250
    assert native["dataloader.documents"] is True
    assert native["lr_scheduler.kind"] == "native"
    assert {row.why for row in translate({**LEAST, **NATIVE}).adjusted if row.native == "lr_scheduler.kind"} == {
        "semantics: native"
    }


@pytest.mark.parametrize(
    ("style", "native", "word"),
    [
        ("cosine", "lr_scheduler.decay_type", "cosine"),
        ("linear", "lr_scheduler.decay_type", "linear"),
        ("constant", "lr_scheduler.decay_ratio", 0.0),
    ],
)
def test_a_native_schedule_decays_as_asked(style: str, native: str, word: Value) -> None:
    """TorchTitan's schedule has words of its own for the form of the decay, and a share for the lowest rate."""
    values = used({**MOCK, **NATIVE, "lr_decay_style": style})
    assert values[native] == word
    assert values["lr_scheduler.min_lr_factor"] == pytest.approx(0.1)


def test_a_decay_that_its_schedule_lacks_is_refused() -> None:
    """It is not replaced by another one."""
    with pytest.raises(ConfigError) as caught:
        translate({**MOCK, **NATIVE, "lr_decay_style": "inverse-square-root"})
    assert "`lr_decay_style` is inverse-square-root" in caught.value.what
    assert "semantics: aligned" in caught.value.remedy
    translate({**MOCK, "lr_decay_style": "inverse-square-root"})


def test_a_run_with_habits_trains(titan_ranks: Ranks, tmp_path: Path) -> None:
    """It warms up and evaluates as TorchTitan does: the first step has a rate, and is evaluated after."""
    schedule: dict[str, Value] = {"lr_warmup_iters": 4, "lr_decay_iters": 8, "train_iters": 2}
    params: dict[str, Value] = {**NATIVE, **schedule, "eval_iters": 1, "eval_interval": 5}
    outcome = titan_ranks.run(tmp_path, params, world=1).check()
    assert [row["lr"] for row in outcome.rows()] == pytest.approx([0.0025, 0.005])
    told = [line["text"].partition(" at ")[2] for line in outcome.of("notice") if line["topic"] == "validation"]
    assert told == ["iteration 1"]
