"""A resolved experiment as a YAML file that can be read, compared and run again."""

from __future__ import annotations

import json
import math
import re
from collections.abc import Iterator, Mapping

from primus_core.experiment import Experiment, Leaf, Module, Value
from primus_core.yamlfile.scalars import resolve

_WORD = re.compile(r"[A-Za-z_./~][A-Za-z0-9_./+-]*")
_NOT_IN_QUOTES = re.compile("[\x7f-\x9f\u2028\u2029\ud800-\udfff\ufeff\ufffe\uffff]")


def dump_experiment(experiment: Experiment) -> str:
    """Every value of an experiment with the place it came from, as an experiment file without ``extends``.

    Numbers and words stand as the user wrote them. The environment is written as it is given: leave out secrets before.
    """
    return "\n".join(_lines(experiment)) + "\n"


def _lines(experiment: Experiment) -> Iterator[str]:
    for key in ("work_group", "user_name", "exp_name", "workspace"):
        yield f"{key}: {_written(getattr(experiment, key))}"
    sections = {"platform": experiment.platform, "env": experiment.env, **experiment.launchers}
    for key, leaves in sections.items():
        if leaves:
            yield from (f"{key}:", *_leaf_lines(leaves, "  "))
    yield "modules:"
    for module in experiment.modules.values():
        yield from _module_lines(module)


def _module_lines(module: Module) -> Iterator[str]:
    yield f"  {_written(module.name)}:"
    for key in ("framework", "config", "model"):
        yield f"    {key}: {_written(getattr(module, key))}"
    if module.params:
        yield "    overrides:"
        yield from _leaf_lines(module.params, "      ")


def _leaf_lines(leaves: Mapping[str, Leaf], indent: str) -> Iterator[str]:
    for key, leaf in leaves.items():
        value = _written(leaf.value, leaf.text)
        origin = str(leaf.origin).replace("\n", " ")
        layer = "" if origin == leaf.origin.layer else f" ({leaf.origin.layer})"
        yield f"{indent}{_written(key)}: {value}  # {origin}{layer}"


def _written(value: Value, text: Value = None) -> str:
    """The value on one line; what the user wrote for it, where that is known."""
    if isinstance(value, list):
        texts = text if isinstance(text, list) else [None] * len(value)
        return f"[{', '.join(map(_written, value, texts))}]"
    if isinstance(value, dict):
        by_key = text if isinstance(text, dict) else {}
        return f"{{{', '.join(f'{_written(k)}: {_written(v, by_key.get(k))}' for k, v in value.items())}}}"
    if isinstance(value, str):
        return value if _WORD.fullmatch(value) and resolve(value) == value else _quoted(value)
    return text if isinstance(text, str) and text else _plain(value)


def _plain(value: Value) -> str:
    if isinstance(value, float) and not math.isfinite(value):
        return ".nan" if math.isnan(value) else ".inf" if value > 0 else "-.inf"
    return json.dumps(value)


def _quoted(value: str) -> str:
    """JSON's quotes and escapes are YAML's, but for characters that YAML takes for line breaks or refuses."""
    quoted = json.dumps(value, ensure_ascii=False)
    return _NOT_IN_QUOTES.sub(lambda found: f"\\u{ord(found.group()):04x}", quoted)
