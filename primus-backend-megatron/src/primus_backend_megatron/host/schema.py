"""The parameters of Megatron by version, from the schema files that this package ships."""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path

from primus_core.experiment import Value
from primus_core.parameters import Schema, load_schema
from primus_core.planning.schemafiles import SchemaFiles

LIBRARY = "megatron-core"
"""The distribution whose version a schema file belongs to."""

FILES = SchemaFiles(LIBRARY, Path(__file__).parent.parent / "schema", "megatron")

_CHANGES: Mapping[str, Mapping[str, Value]] = {
    # Primus tokenizes, with more tokenizers than Megatron: which ones is for its data preparation to say.
    "tokenizer_type": {"choices": []},
    # mxfp4 is a recipe of AMD's Transformer Engine: whether it can be had is for the check of the model to say.
    "fp4_recipe": {"choices": ["nvfp4", "custom", "mxfp4"]},
}

OWN: Mapping[str, Mapping[str, Value]] = {
    "load_hf": {"type": "str", "default": None, "help": "Hugging Face folder to take the weights from"},
}
"""Parameters that this back end has and Megatron has not."""


def schema_for(version: str) -> Schema:
    """The schema of a library version; of the newest one shipped for a version that has no file."""
    return _load(FILES.used_for(version))


@cache
def _load(version: str) -> Schema:
    return load_schema(FILES.text(version), _CHANGES, OWN)
