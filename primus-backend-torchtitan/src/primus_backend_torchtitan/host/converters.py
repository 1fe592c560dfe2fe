"""``model.converters``, also in the words of TorchTitan 0.2: what changes the model before it is built."""

from __future__ import annotations

from collections.abc import Iterator

from primus_backend_torchtitan.host.draft import Draft
from primus_backend_torchtitan.host.entries import NATIVE, WITHOUT_EFFECT
from primus_backend_torchtitan.sections import FORMER_CONVERTERS
from primus_core.errors import ConfigError, PrimusError
from primus_core.experiment import Value
from primus_core.plan import Adjusted

_EMULATED = "float8_linear"
_FORMER_MODULES = {"output": "lm_head"}
"""Parts of a model that TorchTitan 0.3 calls otherwise."""


def adjust_converters(draft: Draft) -> None:
    """Former names become kinds with their options; each is told whether the model is compiled."""
    asked = draft[NATIVE]
    if not isinstance(asked, list) or not asked:
        return
    compiled = bool(draft["compile.enable"]) and "model" in _listed(draft["compile.components"])
    kept = [entry for entry in asked if entry != WITHOUT_EFFECT]
    used: list[Value] = [{"model_compile_enabled": compiled, **_entry(draft, entry)} for entry in kept]
    for path, value in draft.asked.read.items():
        why = f"`{path.rpartition('.')[2]}` of the entry of its kind"
        draft.adjusted[path] = Adjusted(path=path, native=NATIVE, asked=value, used=used, why=why)
    draft.adjust(NATIVE, used, "as TorchTitan 0.3 writes them, with what the compiler's switch means to them")


def without_kernels(draft: Draft) -> Iterator[PrimusError]:
    """One error for each small format, which a CPU has no kernels for, unless it is emulated."""
    wish = draft.asked.wishes.get(NATIVE)
    for entry in _listed(draft[NATIVE]) if wish else ():
        made = _entry(draft, entry) if entry != WITHOUT_EFFECT else None
        if wish and made and not made.get("emulate"):
            slow = "set `emulate: true`, which computes the same slowly"
            other = slow if made["kind"] == _EMULATED else "remove it"
            yield ConfigError(
                f"`{wish.path}` cannot have {made['kind']} on a CPU",
                where=str(wish.leaf.origin),
                why="its kernels are for GPUs",
                remedy=f"{other}, or train on a GPU",
            )


def _entry(draft: Draft, entry: Value) -> dict[str, Value]:
    """An entry with the options of its kind that stand in sections of their own."""
    made: dict[str, Value] = dict(entry) if isinstance(entry, dict) else {"kind": FORMER_CONVERTERS[str(entry)]}
    for path, value in draft.asked.read.items():
        group, _, option = path.rpartition(".")
        if FORMER_CONVERTERS.get(group) == made["kind"]:
            made[option] = value
    if "filter_fqns" in made:
        made["filter_fqns"] = [_FORMER_MODULES.get(str(name), name) for name in _listed(made["filter_fqns"])]
    return made


def _listed(value: Value) -> list[Value]:
    return value if isinstance(value, list) else []
