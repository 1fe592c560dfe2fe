"""Write the schema of the installed megatron.training: every parameter with its type, default and choices.

    python tools/extract_schema.py [OUTPUT]

Without OUTPUT the schema goes to stdout. A parameter is an attribute of the Namespace that Megatron's own parser makes;
66 of them have another name than their flag. Needs torch and megatron-core, but no GPU, triton or Transformer Engine.
"""

from __future__ import annotations

import argparse
import contextlib
import enum
import importlib.metadata
import importlib.util
import io
import os
import sys
import types
import typing
import warnings
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from primus_core.parameters import render_schema

HELP_LENGTH = 110
"""Characters of help kept for a parameter: enough to tell what it is."""


def main(argv: list[str]) -> int:
    text = render_schema(extract())
    if argv:
        Path(argv[0]).write_text(text, encoding="utf-8")
    else:
        sys.stdout.write(text)
    return 0


def extract() -> dict[str, Any]:
    """The schema of the installed library as plain data."""
    for name in ("RANK", "LOCAL_RANK", "WORLD_SIZE"):
        os.environ.pop(name, None)  # defaults that a launcher's environment would change
    with quiet():
        arguments = import_arguments()
        nullable = nullable_fields(arguments)
        parser = arguments.add_megatron_arguments(argparse.ArgumentParser(allow_abbrev=False))
        defaults = vars(parser.parse_args([]))
    actions: dict[str, argparse.Action] = {}
    for action in parser._actions:
        actions.setdefault(action.dest, action)
    del actions["help"]
    rows = {name: describe(action, defaults[name], name in nullable) for name, action in actions.items()}
    return {"library": "megatron-core", "version": importlib.metadata.version("megatron-core"), "parameters": rows}


@contextlib.contextmanager
def quiet() -> Iterator[None]:
    """Megatron prints and warns while it is imported; stdout is for the schema."""
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")
        yield


def import_arguments() -> Any:
    """``megatron.training.arguments``, also on Python 3.11 and where triton is absent."""
    if not hasattr(typing, "override"):
        typing.override = lambda function: function  # type: ignore[attr-defined] # Megatron expects Python 3.12's
    if importlib.util.find_spec("triton") is None:
        stub = types.ModuleType("megatron.core.transformer.moe.ops.paged_stash")
        stub.GLOBAL_BLOCK_SIZE = 1024  # type: ignore[attr-defined] # the one module that imports triton unguarded
        stub.paged_stash_copy_kernel = stub.paged_stash_pop_kernel = None  # type: ignore[attr-defined] # as above
        sys.modules[stub.__name__] = stub
    from megatron.training import arguments

    return arguments


def nullable_fields(arguments: Any) -> set[str]:
    """Names whose dataclass field says ``| None``; filled while the parser is built from those dataclasses."""
    found: set[str] = set()
    factory = arguments.ArgumentGroupFactory
    original: Callable[..., Any] = factory._build_argparse_kwargs_from_field

    def recording(self: Any, attribute: Any) -> Any:
        if type(None) in typing.get_args(attribute.type):
            found.add(attribute.name)
        return original(self, attribute)

    factory._build_argparse_kwargs_from_field = recording
    return found


def describe(action: argparse.Action, default: Any, nullable: bool) -> dict[str, Any]:
    """The row of one parameter. ``nullable`` is written only where it does not follow from the default."""
    row: dict[str, Any] = {"type": type_of(action), "default": plain(default)}
    if row["type"] == "float" and isinstance(row["default"], int):
        row["default"] = float(row["default"])
    if action.choices is not None:
        row["choices"] = [plain(choice) for choice in action.choices]
    if nullable and default is not None:
        row["nullable"] = True
    if action.help and action.help is not argparse.SUPPRESS:
        row["help"] = first_sentence(action.help)
    return row


def type_of(action: argparse.Action) -> str:
    """The type in the words of a schema file. ``any`` is what Megatron itself parses (layer patterns, pairs)."""
    if action.nargs == 0:
        return "bool"
    scalar = "str" if action.type is None else {int: "int", float: "float", str: "str", bool: "bool"}.get(action.type)  # type: ignore[call-overload] # any callable may be asked for
    if scalar is None and action.choices is not None:
        scalar = "str"  # an enum, by the names of its members
    if scalar is None and action.nargs is None:
        return "any"
    return f"list[{scalar or 'str'}]" if action.nargs is not None else scalar or "any"


def plain(value: Any) -> Any:
    """JSON for a default or choice: an enum's member is its name."""
    if isinstance(value, enum.Enum):
        return value.name
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    return value


def first_sentence(text: str) -> str:
    """The beginning of a help text, cut at a sentence or a word."""
    words = " ".join(text.split())
    sentence = words.split(". ")[0].rstrip(".")
    return sentence if len(sentence) <= HELP_LENGTH else sentence[:HELP_LENGTH].rsplit(" ", 1)[0] + " ..."


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
