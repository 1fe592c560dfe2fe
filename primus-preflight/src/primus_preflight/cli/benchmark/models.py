"""Models that the command line names: presets, changed by options, or dimensions alone."""

from __future__ import annotations

import argparse
import os
from collections.abc import Mapping
from typing import Any

from attrs import evolve

from primus_core import discovery
from primus_core.errors import ConfigError
from primus_core.resolve import preset_parameters
from primus_preflight.benchmarks.models import dimensions_of
from primus_preflight.benchmarks.products import Dimensions

_FRAMEWORK = "megatron"
"""Its own presets count beside the portable ones, which belong to nobody."""
_MODULE = "trainer_base.yaml"
_FIELDS = {
    "hidden_size": "hidden",
    "intermediate_size": "ffn_hidden",
    "num_attention_heads": "heads",
    "num_key_value_heads": "kv_heads",
    "head_dim": "head_dim",
    "qk_nope_head_dim": "head_dim",
    "qk_rope_head_dim": "qk_rope_head_dim",
    "v_head_dim": "v_head_dim",
    "vocab_size": "vocabulary",
    "q_lora_rank": "q_lora_rank",
    "kv_lora_rank": "kv_lora_rank",
    "moe_intermediate_size": "moe_ffn_hidden",
    "n_routed_experts": "experts",
    "num_experts_per_tok": "experts_per_token",
}
"""Field of `Dimensions` by option."""
_MAY_BE_NONE = ("q_lora_rank", "n_routed_experts", "n_shared_experts")


def model_of(args: argparse.Namespace, env: Mapping[str, str]) -> Dimensions:
    """The model that a suite's options name.

    Raises:
        ConfigError: there is no such preset and no dimension is given, or one is below 1.
    """
    given = {name: value for name in args.usual if (value := getattr(args, name)) is not None}
    for name, value in given.items():
        if value < (name not in _MAY_BE_NONE):
            raise ConfigError(f"--{name.replace('_', '-')} {value}", remedy="give 1 or more")
    preset = _preset(args.model, env, labelled=bool(given)) if args.model else None
    if preset is None:
        return _changed(_bare(latent="kv_lora_rank" in args.usual), {**args.usual, **given})
    return _changed(preset, given)


def _bare(*, latent: bool) -> Dimensions:
    return Dimensions(hidden=1, ffn_hidden=0, heads=1, kv_heads=1, head_dim=1, vocabulary=1, latent=latent)


def _changed(model: Dimensions, given: Mapping[str, int]) -> Dimensions:
    numbers: dict[str, Any] = {_FIELDS[name]: value for name, value in given.items() if name in _FIELDS}
    changed = evolve(model, **numbers)
    shared = given.get("n_shared_experts")
    return changed if shared is None else evolve(changed, shared_ffn_hidden=shared * changed.moe_ffn_hidden)


def _preset(name: str, env: Mapping[str, str], *, labelled: bool) -> Dimensions | None:
    """The dimensions of a preset; None for a name that is a label of the dimensions given."""
    folders = discovery.preset_dirs(discovery.scan(), _FRAMEWORK)
    file = _file_named(name, [os.getcwd(), *folders])
    if file is None and labelled:
        return None
    leaves = preset_parameters(config=_MODULE, model=file or f"{name}.yaml", env=env, folders=folders, cwd=os.getcwd())
    return dimensions_of(name, {key: leaf.value for key, leaf in leaves.items()})


def _file_named(name: str, folders: list[str]) -> str | None:
    """The file of a preset, whatever the case of its letters: ``Llama3.1_8B`` is llama3.1_8B."""
    wanted = f"{name.removesuffix('.yaml')}.yaml".lower()
    places = [place for folder in folders for place in (folder, os.path.join(folder, "models")) if os.path.isdir(place)]
    return next((file for place in places for file in sorted(os.listdir(place)) if file.lower() == wanted), None)
