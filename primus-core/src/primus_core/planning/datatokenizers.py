"""Which tokenizer an experiment names, by the names that Megatron and its presets use."""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from typing import Literal

from primus_core.errors import ConfigError
from primus_core.experiment import Leaf, Value
from primus_core.parameters import nearest
from primus_core.planning.datasources import missing
from primus_core.records import frozen

Family = Literal["bytes", "huggingface", "sentencepiece", "none"]

_FAMILIES: dict[str, Family] = {
    "ByteLevelTokenizer": "bytes",
    "HuggingFaceTokenizer": "huggingface",
    "Llama3Tokenizer": "huggingface",
    "Llama4Tokenizer": "huggingface",
    "MixtralTokenizer": "huggingface",
    "DeepSeekV2Tokenizer": "huggingface",
    "DeepSeekV3Tokenizer": "huggingface",
    "DeepSeekV4Tokenizer": "huggingface",
    "Lfm2Tokenizer": "huggingface",
    "Llama2Tokenizer": "sentencepiece",
    "SentencePieceTokenizer": "sentencepiece",
    "GPTSentencePieceTokenizer": "sentencepiece",
    "NullTokenizer": "none",
}
"""The model names stand for a class of their own upstream that reads the hub's files, as ours does."""

_FILES: dict[Family, str] = {"huggingface": "tokenizer.json", "sentencepiece": "tokenizer.model"}
_ELSEWHERE = {
    "GPT2BPETokenizer": "use HuggingFaceTokenizer with tokenizer_model: openai-community/gpt2, the same vocabulary",
    "TikTokenizer": "use HuggingFaceTokenizer with the tokenizer.json of the same model",
    "KimiK2Tokenizer": "use HuggingFaceTokenizer with a tokenizer.json made from its tiktoken.model",
}
_HUB_ID = re.compile(r"[A-Za-z0-9][\w.-]*/[A-Za-z0-9][\w.-]*")
_BYTES = "set tokenizer_type: ByteLevelTokenizer to need no file, or HuggingFaceTokenizer with a tokenizer_model"


@frozen(kw_only=True)
class TokenizerChoice:
    """The tokenizer of a run."""

    type: str
    """As the experiment spells it."""
    family: Family
    model: str | None
    """Absolute path of the tokenizer's file, or a hub id; None where the family has none."""
    special_tokens: bool
    """Whether the tokens that a Hugging Face tokenizer puts around a text (its BOS) are kept."""

    @property
    def is_local(self) -> bool:
        return self.model is not None and os.path.isabs(self.model)

    def to_arguments(self) -> Value:
        return {"type": self.type, "model": self.model, "special_tokens": self.special_tokens}


def family_of(name: str) -> Family:
    """What reads the files of a ``tokenizer_type``.

    Raises:
        ConfigError: the type is unknown; lists those that are known.
    """
    if name not in _FAMILIES:
        raise _unknown(name, "")
    return _FAMILIES[name]


def choose_tokenizer(params: Mapping[str, Leaf], cwd: str, *, has_text: bool) -> TokenizerChoice:
    """Read ``tokenizer_type`` and ``tokenizer_model``; nothing is fetched.

    Args:
        has_text: some data has yet to be tokenized.

    Raises:
        ConfigError: the type is unknown or cannot tokenize, or its file does not exist.
    """
    name = _text(params, "tokenizer_type")
    if name is None and not has_text:
        name = "NullTokenizer"
    if name is None:
        raise ConfigError("text data needs a tokenizer, and tokenizer_type is not set", remedy=_BYTES)
    family = _FAMILIES.get(name)
    where = str(params["tokenizer_type"].origin) if "tokenizer_type" in params else ""
    if family is None:
        raise _unknown(name, where)
    if family == "none" and has_text:
        why = "it only stands for the vocabulary of data that is tokenized already"
        raise ConfigError("NullTokenizer cannot tokenize text", where=where, why=why, remedy=_BYTES)
    if family not in _FILES:
        _refuse_model(params, name)
    model = _model(params, family, name, where, cwd) if family in _FILES else None
    bare = params.get("tokenizer_hf_no_include_special_tokens")
    return TokenizerChoice(type=name, family=family, model=model, special_tokens=bare is None or bare.value is not True)


def check_tokenizer_names(params: Mapping[str, Leaf]) -> None:
    """What is wrong with ``tokenizer_type`` and ``tokenizer_model`` whatever files there are.

    Raises:
        ConfigError: the type is unknown, lacks the model that it reads, or has one that it does not read.
    """
    name, mock = _text(params, "tokenizer_type"), params.get("mock_data")
    if name is None or (mock is not None and mock.value is True):
        return
    where = str(params["tokenizer_type"].origin)
    if name not in _FAMILIES:
        raise _unknown(name, where)
    if _FAMILIES[name] not in _FILES:
        _refuse_model(params, name)
    elif _text(params, "tokenizer_model") is None:
        raise _no_model(name, where)


def _refuse_model(params: Mapping[str, Leaf], name: str) -> None:
    """A model that was asked for after, or together with, a type that reads none would be ignored in silence."""
    given, kind = params.get("tokenizer_model"), params.get("tokenizer_type")
    if given is None or given.value in (None, "") or (kind and kind.origin.strength > given.origin.strength):
        return
    raise ConfigError(
        f"{name} reads no tokenizer_model, and {given.value} is given",
        where=str(given.origin),
        why=f"tokenizer_type: {name} ({kind.origin if kind else 'default'})",
        remedy="set tokenizer_type to HuggingFaceTokenizer (tokenizer.json) or SentencePieceTokenizer (.model)",
    )


def _text(params: Mapping[str, Leaf], key: str) -> str | None:
    leaf = params.get(key)
    if leaf is None or leaf.value in (None, ""):
        return None
    if not isinstance(leaf.value, str):
        raise ConfigError(f"{key} is not a text", where=str(leaf.origin), why=f"it is {leaf.value!r}")
    return leaf.value


def _unknown(name: str, where: str) -> ConfigError:
    close = nearest(name, _FAMILIES)
    guess = f"did you mean {close}?" if close else "a model with a tokenizer.json takes HuggingFaceTokenizer"
    return ConfigError(
        f"tokenizer_type {name} is not known",
        where=where,
        why=f"known are {', '.join(_FAMILIES)}",
        remedy=_ELSEWHERE.get(name, guess),
    )


def _model(params: Mapping[str, Leaf], family: Family, name: str, where: str, cwd: str) -> str:
    """The tokenizer's file as an absolute path, or the hub id that has it."""
    given = _text(params, "tokenizer_model")
    wanted = _FILES[family]
    if given is None:
        raise _no_model(name, where)
    where = str(params["tokenizer_model"].origin)
    path = os.path.normpath(os.path.join(cwd, given))
    if os.path.isdir(path):
        path = _inside(path, wanted, name, where)
    elif not os.path.exists(path):
        return _hub_id(given, path, where)
    if not os.path.getsize(path):
        raise ConfigError(f"the tokenizer file {path} is empty", where=where)
    if family == "huggingface" and path.endswith(".model"):
        remedy = "set tokenizer_type: SentencePieceTokenizer"
        raise ConfigError(f"{name} reads a tokenizer.json, and {path} is another format", where=where, remedy=remedy)
    return path


def _no_model(name: str, where: str) -> ConfigError:
    what = f"a {_FILES[_FAMILIES[name]]}, a folder that holds one, or a hub id like meta-llama/Llama-3.1-8B"
    return ConfigError(f"{name} needs a tokenizer_model", where=where, remedy=f"set tokenizer_model to {what}")


def _inside(folder: str, wanted: str, name: str, where: str) -> str:
    path = os.path.join(folder, wanted)
    if os.path.isfile(path):
        return path
    raise ConfigError(
        f"the folder {folder} has no {wanted}",
        where=where,
        why=f"{name} reads {wanted}",
        remedy="name the file itself, or another tokenizer_type",
    )


def _hub_id(given: str, path: str, where: str) -> str:
    if _HUB_ID.fullmatch(given) and not given.endswith((".json", ".model")):
        return given
    parent = os.path.dirname(path)
    candidates = sorted(os.listdir(parent)) if os.path.isdir(parent) else []
    raise missing(path, where, candidates=candidates, what=f"the tokenizer file {path} does not exist")
