"""What Megatron's own validation says: one JSON line ``{"native", "ranks"}`` each in, a list of refusals out."""

from __future__ import annotations

import contextlib
import copy
import io
import json
import sys
from argparse import Namespace
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
        torch.cuda.get_device_properties = lambda *_: SimpleNamespace(major=9)
        defaults = build_namespace({})
        refusals = [refusal(copy.deepcopy(defaults), **json.loads(line)) for line in sys.stdin]
    print(json.dumps(refusals))


def refusal(args: Namespace, native: dict[str, Any], ranks: int) -> str:
    """Megatron's complaint about a configuration; empty when it has none."""
    from megatron.training.argument_utils import core_transformer_config_from_args
    from megatron.training.arguments import validate_args

    vars(args).update(native, world_size=ranks)
    try:
        with contextlib.redirect_stderr(io.StringIO()):
            validate_args(args, {})
            core_transformer_config_from_args(args)
    except (AssertionError, ValueError, RuntimeError) as error:
        return str(error) or type(error).__name__
    return ""


if __name__ == "__main__":
    main()
