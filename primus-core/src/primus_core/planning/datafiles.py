"""From ``train_data_path`` and its like to the task that prepares a run's token files."""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping, Sequence

from primus_core.errors import ConfigError, PrimusError, raise_all
from primus_core.experiment import Leaf, Value
from primus_core.plan import Settings, Task
from primus_core.planning.datasources import Source, find_sources, has_glob, looks_present
from primus_core.planning.datatokenizers import check_tokenizer_names, choose_tokenizer
from primus_core.planning.datavocabulary import check_vocabulary
from primus_core.records import frozen

ENTRY = "primus_core.data.prepare:run"
_SPLITS = {"train": "train_data_path", "valid": "valid_data_path", "test": "test_data_path"}


@frozen(kw_only=True)
class Weighted:
    """A source and its share of the blend; None: by its number of tokens."""

    source: Source
    weight: float | None


def data_task(params: Mapping[str, Leaf], settings: Settings, cwd: str, workspace: str) -> Task | None:
    """The task that tokenizes or checks a module's data before training.

    Args:
        params: the module's resolved parameters.
        settings: core's own parameters (``text_field``).
        cwd: absolute folder that relative paths start from.
        workspace: absolute; tokenized data is kept in its ``cache/data``.

    Returns:
        None when ``mock_data`` is true.

    Raises:
        ConfigError: no data is named, a path is unusable, or the tokenizer does not fit; ``ErrorGroup`` for several.
    """
    keys = _data_keys(params)
    if not keys:
        return None
    text_field = str(settings.values.get("text_field") or "text")
    splits = _splits(params, keys, cwd, text_field)
    sources = [item.source for items in splits.values() for item in items]
    tokenizer = choose_tokenizer(params, cwd, has_text=any(source.kind != "indexed" for source in sources))
    vocabulary, where = _vocabulary(params)
    if vocabulary is not None:
        try:
            check_vocabulary(vocabulary, tokenizer, sources, where)
        except OSError as error:
            raise _unreadable(error, where) from None
    return Task(
        kind="data",
        entry=ENTRY,
        runner="plain",
        arguments={
            "cache": f"{workspace}/cache/data",
            "tokenizer": tokenizer.to_arguments(),
            "text_field": text_field,
            "vocab_size": vocabulary,
            "splits": {name: [_to_arguments(item) for item in items] for name, items in splits.items()},
        },
    )


def check_data_names(params: Mapping[str, Leaf]) -> None:
    """What is wrong with a module's data parameters whatever files there are; looks at none.

    A module that names no data is none of its business: the back end tells everything that is missing at once.

    Raises:
        ConfigError: two parameters contradict each other, or one has a value of no use; ``ErrorGroup`` for several.
    """
    named = [key for key in (*_SPLITS.values(), "data_path") if _value(params, key) not in (None, "", [])]
    checks: list[Callable[[], object]] = [functools.partial(check_tokenizer_names, params)]
    if named:
        checks[:0] = [lambda: _data_keys(params), *(functools.partial(_check_items, n, params[n]) for n in named)]
    errors: list[PrimusError] = []
    for check in checks:
        try:
            check()
        except ConfigError as error:
            errors.append(error)
    raise_all(errors)


def _to_arguments(item: Weighted) -> Value:
    source = item.source
    return {"kind": source.kind, "weight": item.weight, "files": list(source.files), "scanned": source.scanned}


def _value(params: Mapping[str, Leaf], key: str) -> Value:
    leaf = params.get(key)
    return leaf.value if leaf is not None else None


def _data_keys(params: Mapping[str, Leaf]) -> dict[str, str]:
    """The parameter that names the data of each split, for the splits that have some; none for made-up data.

    Raises:
        ConfigError: two parameters name the same data, or the training data is missing.
    """
    keys = {split: key for split, key in _SPLITS.items() if _value(params, key) not in (None, "", [])}
    if _value(params, "data_path") not in (None, "", []):
        if keys:
            raise _both(params, "data_path", next(iter(keys.values())))
        keys = {"train": "data_path"}
    if keys and _value(params, "mock_data") is True:
        raise _both(params, "mock_data", next(iter(keys.values())))
    if keys or _value(params, "mock_data") is True:
        _refuse_valid_alone(params, keys)
        return keys
    for key in ("data_args_path", "per_split_data_args_path"):
        if _value(params, key) is not None:
            raise ConfigError(
                f"{key} is not read", where=str(params[key].origin), remedy="write its list as train_data_path"
            )
    raise ConfigError(
        "no data to train on",
        why="neither train_data_path nor mock_data is set",
        remedy="set train_data_path to text, JSONL, Parquet or indexed data; mock_data: true trains on made-up tokens",
    )


def _refuse_valid_alone(params: Mapping[str, Leaf], keys: Mapping[str, str]) -> None:
    if keys and "train" not in keys:
        key = next(iter(keys.values()))
        raise ConfigError(
            f"{key} is set and train_data_path is not", where=str(params[key].origin), remedy="set train_data_path too"
        )


def _both(params: Mapping[str, Leaf], first: str, second: str) -> ConfigError:
    return ConfigError(
        f"{first} and {second} are both set",
        where=str(params[second].origin),
        why=f"a run has one source of data; {first} is set at {params[first].origin}",
        remedy="set mock_data to false, or take the path away" if first == "mock_data" else f"keep {second} alone",
    )


def _splits(
    params: Mapping[str, Leaf], keys: Mapping[str, str], cwd: str, text_field: str
) -> dict[str, list[Weighted]]:
    """Every source of the training, validation and test data; the errors of all entries are told together."""
    splits: dict[str, list[Weighted]] = {split: [] for split in _SPLITS}
    errors: list[PrimusError] = []
    for split, key in keys.items():
        for weight, entry in _blend(key, params[key], cwd):
            try:
                found = find_sources(entry, cwd, str(params[key].origin), text_field)
                splits[split].extend(_share(found, weight))
            except OSError as error:
                errors.append(_unreadable(error, str(params[key].origin)))
            except ConfigError as error:
                errors.append(error)
    raise_all(errors)
    return splits


def _unreadable(error: OSError, where: str) -> ConfigError:
    what = f"{error.filename or 'a data file'} cannot be read"
    remedy = "give this user the right to read it, or name other data"
    return ConfigError(what, where=where, why=error.strerror or str(error), remedy=remedy)


def _share(sources: Sequence[Source], weight: float | None) -> list[Weighted]:
    """Divide an entry's weight among its sources by their bytes."""
    total = sum(source.size for source in sources)
    return [Weighted(source=s, weight=None if weight is None else weight * s.size / total) for s in sources]


def _blend(key: str, leaf: Leaf, cwd: str) -> list[tuple[float | None, str]]:
    """Entries with their normalised weights; all weights are None where the user gave none."""
    items = _items(key, leaf, cwd)
    weights = [_number(item) for item in items]
    if all(weight is None for weight in weights) and not _seem_weights(items, cwd):
        return [(None, str(item)) for item in items]
    pairs = [(_weight(items[at : at + 2], at, key, leaf), str(items[at + 1])) for at in range(0, len(items) - 1, 2)]
    if len(items) % 2:
        raise _no_blend(key, leaf, f"{items[-1]!r}, the last of {len(items)} elements, has no partner")
    total = sum(weight for weight, _ in pairs)
    return [(weight / total, path) for weight, path in pairs]


def _seem_weights(items: Sequence[Value], cwd: str) -> bool:
    """Whether every second element is a path that is there, and none of those before them is: weights in words."""
    present = [looks_present(str(item), cwd) for item in items]
    return len(items) % 2 == 0 and all(present[1::2]) and not any(present[::2]) and not any(map(has_glob, items[::2]))


def _weight(pair: Sequence[Value], at: int, key: str, leaf: Leaf) -> float:
    weight, path = _number(pair[0]), _number(pair[1])
    if weight is None or path is not None:
        what = f"element {at + 1} is {pair[0]!r} and element {at + 2} is {pair[1]!r}"
        raise _no_blend(key, leaf, f"{what}: not a number and a path")
    if not math.isfinite(weight) or weight <= 0:
        raise _no_blend(key, leaf, f"the weight {pair[0]!r} of {pair[1]} is not above 0")
    return weight


def _no_blend(key: str, leaf: Leaf, why: str) -> ConfigError:
    return ConfigError(
        f"{key} is not a blend",
        where=str(leaf.origin),
        why=f"a blend is weight, path, weight, path ...; every weight is a number above 0\n{why}",
        remedy="for example [0.7, a.txt, 0.3, b.txt]; a file whose name is a number is written ./7",
    )


def _check_items(key: str, leaf: Leaf) -> None:
    value = leaf.value
    if isinstance(value, str) or (isinstance(value, list) and all(type(item) in (str, int, float) for item in value)):
        return
    raise ConfigError(f"{key} is not a path or a list of paths", where=str(leaf.origin), why=f"it is {value!r}")


def _items(key: str, leaf: Leaf, cwd: str) -> list[Value]:
    """The elements of a data path; one text may hold several, separated by blanks, as on Megatron's command line."""
    _check_items(key, leaf)
    value = leaf.value
    if isinstance(value, str):
        text = value.strip()
        parts = text.split()
        several = not looks_present(text, cwd) and any(_number(p) is not None or looks_present(p, cwd) for p in parts)
        return list(parts) if several else [text]
    items = value if isinstance(value, list) else []
    return [item.strip() if isinstance(item, str) else item for item in items]


def _number(item: Value) -> float | None:
    if isinstance(item, str):
        try:
            return float(item)
        except ValueError:
            return None
    return float(item) if isinstance(item, int | float) else None


def _vocabulary(params: Mapping[str, Leaf]) -> tuple[int | None, str]:
    """Rows of the model's embedding and their origin, where the experiment says so."""
    for key in ("vocab_size", "padded_vocab_size"):
        value = _value(params, key)
        if isinstance(value, str) and value.isdecimal():
            value = int(value)
        if isinstance(value, int) and not isinstance(value, bool):
            return value, str(params[key].origin)
    return None, ""
