"""A resolved experiment as a YAML file that can be read, compared and run again."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping

from primus_core.experiment import Experiment, Leaf, Module, Origin, Value
from primus_core.records import frozen
from primus_core.yamlfile.scalars import resolve

_WORD = re.compile(r"[A-Za-z_./~][A-Za-z0-9_./+-]*")
_NOT_IN_QUOTES = re.compile("[\x7f-\x9f\u2028\u2029\ud800-\udfff\ufeff\ufffe\uffff]")


def dump_experiment(experiment: Experiment, *, origins: bool = True) -> str:
    """Every value of an experiment, as an experiment file without ``extends`` that means the same.

    Numbers and words stand as the user wrote them. The environment is written as it is given: leave out secrets before.

    Args:
        origins: with the place that each value came from, as a comment.
    """
    return "\n".join(f"{line.text}{_comment(line.origin) if origins else ''}" for line in _lines(experiment)) + "\n"


@frozen
class _Line:
    text: str
    origin: Origin | None = None


def _comment(origin: Origin | None) -> str:
    if origin is None:
        return ""
    place = str(origin).replace("\n", " ")
    return f"  # {place}" if place == origin.layer else f"  # {place} ({origin.layer})"


def _lines(experiment: Experiment) -> Iterator[_Line]:
    for key in ("work_group", "user_name", "exp_name", "workspace"):
        yield _line(key, getattr(experiment, key), experiment.words.get(key))
    sections = {"platform": experiment.platform, "env": experiment.env, **experiment.launchers}
    for section, leaves in sections.items():
        if leaves:
            yield _Line(f"{section}:")
            yield from _leaf_lines(leaves, "  ", secrets=section == "env")
    yield _Line("modules:")
    for module in experiment.modules.values():
        yield _Line(f"  {_key(module.name)}:")
        for key in ("framework", "config", "model"):
            leaf = experiment.words.get(f"modules.{module.name}.{key}")
            yield _line(f"    {key}", getattr(module, key), leaf)
        yield from _parameter_lines(module)


def _line(key: str, value: str, leaf: Leaf | None) -> _Line:
    return _Line(f"{key}: {written(value)}", leaf.origin if leaf else None)


def _parameter_lines(module: Module) -> Iterator[_Line]:
    """The parameters, and those of the presets that must not come back."""
    if module.params or module.unset:
        yield _Line("    overrides:")
    yield from _leaf_lines(module.params, "      ")
    for key, origin in module.unset.items():
        yield _Line(f"      {_key(key)}: !unset", origin)


def _leaf_lines(leaves: Mapping[str, Leaf], indent: str, *, secrets: bool = False) -> Iterator[_Line]:
    """One line for each leaf; ``secrets``: what is held as a reference to itself stays one."""
    for key, leaf in leaves.items():
        reference = f"${{{key}}}"
        value = reference if secrets and leaf.value == reference else written(leaf.value, leaf.text)
        yield _Line(f"{indent}{_key(key)}: {value}", leaf.origin)


def written(value: Value, text: Value = None) -> str:
    """A value as YAML on one line; what the user wrote for it, where that is known."""
    if isinstance(value, list):
        texts = text if isinstance(text, list) else [None] * len(value)
        return f"[{', '.join(map(written, value, texts))}]"
    if isinstance(value, dict):
        by_key = text if isinstance(text, dict) else {}
        return f"{{{', '.join(f'{_key(k)}: {written(v, by_key.get(k))}' for k, v in value.items())}}}"
    if isinstance(value, str):
        return _key(value).replace("${", "$${")
    # of the command line and of variables, `tRUE` is a bool too
    kept = isinstance(text, str) and text and type(resolve(text)) is type(value)
    return str(text) if kept else _plain(value)


def _key(name: str) -> str:
    """A text as YAML where no variables are looked for."""
    return name if _WORD.fullmatch(name) and resolve(name) == name else _quoted(name)


def _plain(value: Value) -> str:
    if isinstance(value, float) and not math.isfinite(value):
        return ".nan" if math.isnan(value) else ".inf" if value > 0 else "-.inf"
    return json.dumps(value)


def _quoted(value: str) -> str:
    """JSON's quotes and escapes are YAML's, but for characters that YAML takes for line breaks or refuses."""
    quoted = json.dumps(value, ensure_ascii=False)
    return _NOT_IN_QUOTES.sub(lambda found: f"\\u{ord(found.group()):04x}", quoted)
