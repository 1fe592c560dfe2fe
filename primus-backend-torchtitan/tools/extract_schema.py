"""Write the schema of TorchTitan's parameters: one for each field that can be set in its ``Trainer.Config`` tree.

    python tools/extract_schema.py FILE    # src/primus_backend_torchtitan/schema/torchtitan-VERSION.json

A section that is one of several classes (`primus_backend_torchtitan.sections`) has the fields of all of them; a field
that only some kinds have says which. Needs the library, and no accelerator.
"""

from __future__ import annotations

import ast
import dataclasses
import importlib.metadata
import importlib.util
import inspect
import itertools
import sys
import textwrap
import types
import typing
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from primus_backend_torchtitan.sections import SECTIONS
from primus_core.parameters import render_schema

HELP_LENGTH = 110
"""Characters of help kept for a parameter: enough to tell what it is."""

NOT_SETTABLE = {"model_spec"}
"""Made of the parameters of the model, which Primus has names of its own for."""

Row = dict[str, Any]


def main(argv: list[str]) -> int:
    text = render_schema(extract())
    if argv:
        Path(argv[0]).write_text(text, encoding="utf-8")
    else:
        sys.stdout.write(text)
    return 0


def extract() -> Row:
    """The schema of the installed library as plain data."""
    without_triton()
    from torchtitan.trainer import Trainer

    return {
        "library": "torchtitan",
        "version": importlib.metadata.version("torchtitan"),
        "parameters": dict(fields_of("", [(Trainer.Config, "")])),
    }


def without_triton() -> None:
    """Let the library be imported where triton is absent: one module of it imports triton unguarded."""
    if importlib.util.find_spec("triton") is None:
        stub = types.ModuleType("torchtitan.distributed.minimal_async_ep.kernels")
        stub.__getattr__ = lambda name: None  # type: ignore[method-assign] # whatever is imported from it
        sys.modules[stub.__name__] = stub


def fields_of(prefix: str, classes: list[tuple[type, str]]) -> Iterator[tuple[str, Row]]:
    """Name and row of every field, at any depth, that one of some classes has.

    Args:
        classes: each with the kind that it is chosen by; the first one that has a field describes it.
    """
    seen: set[str] = set()
    for owner, _ in classes:
        hints = typing.get_type_hints(owner)
        texts = help_of(owner)
        for field in dataclasses.fields(owner):
            if field.name in seen or field.name in NOT_SETTABLE or field.name.startswith("_"):
                continue
            seen.add(field.name)
            path = f"{prefix}{field.name}"
            having = [kind for other, kind in classes if field.name in {one.name for one in dataclasses.fields(other)}]
            kinds = having if len(having) < len(classes) else []
            yield from described(path, hints[field.name], field, texts.get(field.name, ""), kinds)


def described(path: str, hint: Any, field: Any, text: str, kinds: list[str]) -> Iterator[tuple[str, Row]]:
    """The rows of one field: those of its own fields where it is a section."""
    default = default_of(field)
    if path in SECTIONS or dataclasses.is_dataclass(default):
        yield from fields_of(f"{path}.", section_classes(path, default))
        return
    kind, nullable, choices = type_of(hint)
    if kind is None:
        return
    row: Row = {"type": kind, "default": plain(default)}
    if choices:
        row["choices"] = choices
    if nullable and row["default"] is not None:
        row["nullable"] = True
    if not nullable and row["default"] is None:
        row["nullable"] = False
    if kinds:
        row["kinds"] = kinds
    if text:
        row["help"] = first_sentence(text)
    yield path, row


def section_classes(path: str, default: Any) -> list[tuple[type, str]]:
    """The library's classes of a section, the one that it starts with first."""
    found: list[tuple[type, str]] = []
    if path in SECTIONS:
        targets = {kind: target for kind, target in SECTIONS[path].kinds.items() if target}
        found = [
            (named(target), kind) for kind, target in targets.items() if target and target.startswith("torchtitan.")
        ]
    if default is not None and type(default) not in {owner for owner, _ in found}:
        found.append((type(default), "dcp" if path == "checkpoint" else ""))
    return found


def named(target: str) -> type:
    module, _, path = target.partition(":")
    found: Any = importlib.import_module(module)
    for part in path.split("."):
        found = getattr(found, part)
    return typing.cast(type, found)


def default_of(field: Any) -> Any:
    if field.default is not dataclasses.MISSING:
        return field.default
    return None if field.default_factory is dataclasses.MISSING else field.default_factory()


def type_of(hint: Any) -> tuple[str | None, bool, list[Any]]:
    """The type in the words of a schema file, whether null is allowed, and the choices; no type: cannot be written."""
    origin, inside = typing.get_origin(hint), typing.get_args(hint)
    if origin is typing.Annotated:
        return type_of(inside[0])
    if origin in (typing.Union, types.UnionType):
        rest = [one for one in inside if one is not type(None)]
        kinds = {type_of(one)[0] for one in rest}
        kind = "float" if kinds == {"int", "float"} else kinds.pop() if len(kinds) == 1 else "any"
        return kind, len(rest) < len(inside), type_of(rest[0])[2] if len(rest) == 1 else []
    if origin is typing.Literal:
        return "str", False, list(inside)
    if origin in (list, tuple):
        element = type_of(inside[0])[0] if inside else None
        return f"list[{element if element in ('int', 'float', 'str') else 'any'}]", False, []
    if hint is dict or origin is dict:
        return "map", False, []
    return {bool: "bool", int: "int", float: "float", str: "str"}.get(hint), False, []


def plain(value: Any) -> Any:
    """JSON for a default."""
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    return dataclasses.asdict(value) if dataclasses.is_dataclass(value) and not isinstance(value, type) else value


def help_of(owner: type) -> dict[str, str]:
    """What stands as a text below each field in the source of a class and of those it extends."""
    texts: dict[str, str] = {}
    for one in reversed(owner.__mro__):
        if dataclasses.is_dataclass(one):
            texts |= dict(texts_below_fields(one))
    return texts


def texts_below_fields(owner: type) -> Iterator[tuple[str, str]]:
    tree = ast.parse(textwrap.dedent(inspect.getsource(owner))).body[0]
    body = tree.body if isinstance(tree, ast.ClassDef) else []
    for above, below in itertools.pairwise(body):
        text = below.value.value if isinstance(below, ast.Expr) and isinstance(below.value, ast.Constant) else None
        if isinstance(above, ast.AnnAssign) and isinstance(above.target, ast.Name) and isinstance(text, str):
            yield above.target.id, text


def first_sentence(text: str) -> str:
    """The beginning of a help text, cut at a sentence or a word."""
    words = " ".join(text.split())
    sentence = words.split(". ")[0].rstrip(".")
    return sentence if len(sentence) <= HELP_LENGTH else sentence[:HELP_LENGTH].rsplit(" ", 1)[0] + " ..."


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
