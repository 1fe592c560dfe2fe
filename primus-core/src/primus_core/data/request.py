"""What the plan asks of the data task."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Literal

from attrs import field, frozen

from primus_core.codec import from_json
from primus_core.errors import ConfigError
from primus_core.plan import RunPlan


@frozen(kw_only=True)
class SourceRequest:
    """Files of one kind that become one token file, or one indexed prefix."""

    kind: Literal["indexed", "text", "jsonl", "parquet"]
    files: tuple[str, ...]
    """Absolute paths in the order of their documents; for ``indexed`` the one prefix."""
    weight: float | None = None
    """Share of the blend; None: by number of tokens."""
    scanned: bool = False
    """Found in a folder or by a glob: a file that is not UTF-8 is left out, with a warning."""


@frozen(kw_only=True)
class TokenizerRequest:
    """The tokenizer by the name and model that the experiment gives."""

    type: str
    model: str | None = None
    special_tokens: bool = True


@frozen(kw_only=True)
class DataRequest:
    """The arguments of the data task."""

    cache: str
    """Folder of the token files, made when it is missing."""
    tokenizer: TokenizerRequest
    text_field: str = "text"
    vocab_size: int | None = None
    """Rows of the model's embedding; None: unknown, not checked."""
    splits: Mapping[str, tuple[SourceRequest, ...]] = field(factory=dict)

    @classmethod
    def of(cls, plan: RunPlan) -> DataRequest:
        """The request in a plan's data task.

        Raises:
            ConfigError: the plan has none, or one of another layout.
        """
        for task in (plan.task, *plan.prepare):
            if task.kind == "data":
                return from_json(cls, json.dumps(task.arguments), source="plan.json: the data task")
        raise ConfigError("the plan has no data task")
