"""What Megatron's own validation says: one JSON line ``{"native", "ranks"}`` each in, a list of refusals out.

A line may have an ``"environment"`` of the ranks. With ``--transformer-engine`` Megatron finds Transformer Engine's
version and fused functions, as on a GPU; it only asks whether they are there.
"""

from __future__ import annotations

import contextlib
import copy
import io
import json
import os
import sys
from argparse import Namespace
from enum import Enum
from importlib.util import module_from_spec, spec_from_file_location
from pathlib import Path
from types import SimpleNamespace
from typing import Any

from primus_backend_megatron.rank.arguments import build_namespace

EXTRACT = Path(__file__).parents[2] / "primus-backend-megatron/tools/extract_schema.py"


def main() -> None:
    spec = spec_from_file_location("extract_schema", EXTRACT)
    assert spec is not None
    assert spec.loader is not None
    extract = module_from_spec(spec)
    spec.loader.exec_module(extract)
    with extract.quiet():
        extract.import_arguments()
        import torch

        # Megatron asks for the generation of the GPU before it checks anything else.
        torch.cuda.get_device_properties = lambda *_: SimpleNamespace(major=9, minor=0)
        if "--transformer-engine" in sys.argv:
            pretend_transformer_engine()
        defaults = build_namespace({})
        refusals = [refusal(copy.deepcopy(defaults), **json.loads(line)) for line in sys.stdin]
    print(json.dumps(refusals))


def pretend_transformer_engine() -> None:
    """Give Megatron the version and the names that it looks for."""
    from megatron.core import utils
    from megatron.core.models.common.embeddings import rope_utils
    from megatron.core.transformer.moe import moe_utils
    from packaging.version import Version

    utils.get_te_version = lambda: Version("2.8.0")
    for name in ("fused_apply_rotary_pos_emb", "fused_apply_rotary_pos_emb_thd"):
        setattr(rope_utils, name, object())
    sorting = ("fused_sort_chunks_by_index", "fused_sort_chunks_by_index_with_probs")
    for name in ("fused_permute", "fused_permute_with_probs", "fused_unpermute", *sorting):
        setattr(moe_utils, name, object())


def refusal(args: Namespace, native: dict[str, Any], ranks: int, environment: dict[str, str] | None = None) -> str:
    """Megatron's complaint about a configuration; empty when it has none."""
    from megatron.training.argument_utils import core_transformer_config_from_args
    from megatron.training.arguments import validate_args

    vars(args).update({name: _typed(vars(args).get(name), value) for name, value in native.items()}, world_size=ranks)
    before = dict(os.environ)
    os.environ.update(environment or {})
    try:
        with contextlib.redirect_stderr(io.StringIO()):
            validate_args(args, {})
            core_transformer_config_from_args(args)
    except (AssertionError, ValueError, RuntimeError, TypeError) as error:
        return str(error) or type(error).__name__
    finally:
        os.environ.clear()
        os.environ.update(before)
    return ""


def _typed(default: object, value: object) -> object:
    """Text as the enumeration that Megatron's own parser would make of it."""
    return type(default)[value] if isinstance(default, Enum) and isinstance(value, str) else value


if __name__ == "__main__":
    main()
