"""Whether a Hugging Face folder has the weights of an experiment's model; by headers and config.json alone."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

from attrs import frozen

from primus_core.checkpoints.faults import Unreadable
from primus_core.checkpoints.safetensors import DTYPES, Stored, read_folder
from primus_core.experiment import Module, Value
from primus_core.outcome import Finding
from primus_core.weights import huggingface
from primus_core.weights.architecture import Dense, NotDense, dense

PARAMETER = "load_hf"
_MOST = 4
"""Tensors that are told; the others follow from the same mistake."""
_IGNORED = re.compile(r".*\.rotary_emb\.inv_freq")
_HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*")
_BY_TENSOR = {
    "q_proj": ("num_attention_heads", "kv_channels"),
    "o_proj": ("num_attention_heads", "kv_channels"),
    "k_proj": ("num_query_groups", "kv_channels"),
    "v_proj": ("num_query_groups", "kv_channels"),
    "mlp": ("ffn_hidden_size",),
    "embed_tokens": ("vocab_size", "hidden_size"),
    "lm_head": ("vocab_size", "untie_embeddings_and_output_weights"),
    "bias": ("add_qkv_bias",),
    "_norm": ("qk_layernorm",),
}
"""Portable names of what decides a tensor, by a part of its name."""


@frozen(kw_only=True)
class Case:
    """An experiment that starts from a folder."""

    framework: str
    module: Module
    folder: str
    """Absolute."""
    values: Mapping[str, Value]
    """The model's parameters by portable names, defaults included."""
    parameter: str = PARAMETER
    """The experiment's spelling of what names the folder."""

    def finding(self, check: str, summary: str, why: str, remedy: str, parameters: Iterable[str] = ()) -> Finding:
        """An error at the line of ``load_hf``, with the values and lines of other parameters."""
        told = "\n".join(self.told(name) for name in dict.fromkeys(parameters) if name in self.values)
        return Finding(
            check=f"{self.framework}.{check}",
            severity="error",
            summary=summary,
            evidence="\n".join(filter(None, (why, told))),
            remedy=remedy,
            where=str(self.module.origin(self.parameter)) if self.parameter in self.module.params else "",
        )

    def told(self, name: str) -> str:
        """A parameter with its value and line."""
        origin = self.module.origin(name) if name in self.module.params else "default"
        return f"{name}: {json.dumps(self.values[name])} ({origin})"


def check_kind(case: Case) -> tuple[Finding, ...]:
    """Whether the model is of a kind whose weights can be exchanged. Looks at no file."""
    try:
        dense(case.values)
    except NotDense as other:
        summary = "the weights of this model cannot be read from a Hugging Face folder"
        why = f"`{case.parameter}` knows dense Llama and Qwen models: {other.words}"
        return (case.finding("weights", summary, why, f"remove `{case.parameter}`", other.parameters),)
    return ()


def check_folder(case: Case) -> tuple[Finding, ...]:
    """Everything that is wrong with the folder; nothing for a model of another kind."""
    try:
        model = dense(case.values)
    except NotDense:
        return ()
    try:
        stored, config = read_folder(case.folder), _config(case.folder)
    except Unreadable as fault:
        return (_unreadable(case, fault),)
    return _contradictions(case, config, model) or tuple(_tensors(case, stored, model))


def _unreadable(case: Case, fault: Unreadable) -> Finding:
    remedy = "copy the files again, or correct the path"
    asked = case.module.params[case.parameter].value if case.parameter in case.module.params else ""
    if not Path(case.folder).exists() and isinstance(asked, str) and _HUB_ID.fullmatch(asked):
        remedy = f"fetch it first, `hf download {asked} --local-dir DIR`, and set {case.parameter}: DIR"
    return case.finding("weights", f"the weights in {case.folder} cannot be read", str(fault), remedy)


def _config(folder: str) -> dict[str, object]:
    path = Path(folder) / huggingface.CONFIG
    try:
        content = json.loads(path.read_text(encoding="utf-8"))
    except OSError as error:
        raise Unreadable(f"{path.name}: {error.strerror}") from None
    except (ValueError, RecursionError):
        content = None
    if not isinstance(content, dict):
        raise Unreadable(f"{path.name} is no JSON object")
    return content


def _contradictions(case: Case, config: Mapping[str, object], model: Dense) -> tuple[Finding, ...]:
    """One finding of everything that config.json and the experiment say otherwise."""
    found = tuple(huggingface.differences(config, model))
    if not found:
        return ()
    lines = [
        f"{one.key} is {json.dumps(one.theirs)} there and {json.dumps(one.ours)} in the experiment; "
        + ", ".join(case.told(name) for name in one.parameters if name in case.values)
        for one in found
    ]
    summary = f"{case.folder} is of another model than the experiment"
    remedy = "set what differs to the folder's values, or name the folder of this model"
    return (case.finding("weights-model", summary, "\n".join(lines), remedy),)


def _tensors(case: Case, stored: Mapping[str, Stored], model: Dense) -> Iterator[Finding]:
    wanted = huggingface.tensors(model)
    known = {*wanted, huggingface.OUTPUT} if model.tied else set(wanted)
    if missing := [name for name in wanted if name not in stored]:
        shapes = [f"{name} {list(wanted[name])}" for name in missing]
        yield _told(case, "lacks", "a tensor of the model", missing, shapes)
    if extra := sorted(name for name in stored if name not in known and not _IGNORED.fullmatch(name)):
        shapes = [f"{name} {list(stored[name].shape)}" for name in extra]
        yield _told(case, "has", "a tensor that the model has no place for", extra, shapes)
    odd = [name for name, shape in wanted.items() if name in stored and not _fits(stored[name].shape, shape, model)]
    if odd:
        shapes = [f"{name} is {list(stored[name].shape)} there and {list(wanted[name])} in the model" for name in odd]
        yield _told(case, "has", "a tensor of another shape", odd, shapes)
    types = {name for name, _ in DTYPES.values()}
    if packed := [name for name in wanted if name in stored and stored[name].dtype not in types]:
        shapes = [f"{name} is {stored[name].dtype}; known are {', '.join(sorted(types))}" for name in packed]
        yield _told(case, "has", "a tensor that is quantized", packed, shapes)


def _fits(theirs: tuple[int, ...], ours: tuple[int, ...], model: Dense) -> bool:
    """The rows of the embedding may include some of the padding."""
    if ours[0] == model.vocabulary and len(ours) == len(theirs) == 2:
        return model.vocabulary <= theirs[0] <= model.rows and theirs[1] == ours[1]
    return theirs == ours


def _told(case: Case, verb: str, what: str, names: list[str], lines: list[str]) -> Finding:
    parameters = [
        parameter for name in names[:_MOST] for part, row in _BY_TENSOR.items() if part in name for parameter in row
    ]
    more = [f"and {len(lines) - _MOST} more"] if len(lines) > _MOST else []
    remedy = f"give {_names(parameters)} the folder's values" if parameters else "name the folder of this model"
    return case.finding(
        "weights-tensors", f"{case.folder} {verb} {what}", "\n".join([*lines[:_MOST], *more]), remedy, parameters
    )


def _names(parameters: Iterable[str]) -> str:
    return ", ".join(dict.fromkeys(parameters))
