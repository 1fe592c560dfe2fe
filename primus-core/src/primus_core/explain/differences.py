"""How two experiments differ in meaning: not in their text, their presets' names or the order of keys."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from attrs import frozen

from primus_core.experiment import Experiment, Leaf, Module, Origin, Value
from primus_core.explain.explanation import typed
from primus_core.explain.vocabulary import Vocabulary
from primus_core.parameters import owner_of
from primus_core.pipeline import Judged
from primus_core.plan import Adjusted, Layout, Mapped, Settings, Translation

_NOT_SET = "not set"
_NOWHERE = Origin(file="default", layer="default")


@frozen(kw_only=True)
class Subject:
    """One of the two experiments, with what its back end makes of it and the names that it knows."""

    experiment: Experiment
    module: Module
    settings: Settings
    translation: Translation | None
    words: Vocabulary

    @classmethod
    def of(cls, judged: Judged, words: Vocabulary) -> Subject:
        return cls(
            experiment=judged.experiment,
            module=judged.module,
            settings=judged.plan.settings if judged.plan else Settings(values={}),
            translation=judged.translation,
            words=words,
        )


@frozen(kw_only=True)
class Side:
    """A value in one of the two experiments."""

    asked: Value
    """The typed value; the default where nobody set it."""
    used: Value
    """What the library gets."""
    origin: str
    """``file:line``, ``default``, or ``not set``."""


@frozen(kw_only=True)
class Difference:
    """One thing that the two experiments mean differently."""

    name: str
    before: Side
    after: Side


def differences(a: Subject, b: Subject) -> tuple[Difference, ...]:
    """Everything that differs, in the order of the first experiment.

    Parameters are compared by the library's names, so that two spellings of one are the same, and with its defaults,
    so that one which is set to its default equals one that is not set. What has no effect is not compared. Between two
    back ends, whose native values mean different things, what was set is compared.
    """
    native = a.module.framework == b.module.framework
    one, other = _sides(a, native), _sides(b, native)
    names = [*one, *(name for name in other if name not in one)]
    pairs = ((name, one.get(name) or _unset(name, a), other.get(name) or _unset(name, b)) for name in names)
    return tuple(Difference(name=name, before=x, after=y) for name, x, y in pairs if _meaning(x) != _meaning(y))


def _meaning(side: Side) -> tuple[str, str]:
    """The values with their types: 1, 1.0 and true are three values."""
    return repr(side.asked), repr(side.used)


def _unset(name: str, subject: Subject) -> Side:
    parameter = subject.words.parameter(name)
    value = typed(parameter, Leaf(value=parameter.default, origin=_NOWHERE)) if parameter else None
    return Side(asked=value, used=value, origin="default" if parameter else _NOT_SET)


def _sides(subject: Subject, native: bool) -> dict[str, Side]:
    parameters = _native(subject) if native else _asked(subject)
    return {**dict(_texts(subject)), **dict(_settings(subject)), **dict(parameters)}


def _same(value: Value, origin: object) -> Side:
    return Side(asked=value, used=value, origin=str(origin))


def _texts(subject: Subject) -> Iterator[tuple[str, Side]]:
    """What is no parameter: names, environment, options of launchers."""
    experiment, module = subject.experiment, subject.module
    for name in ("work_group", "user_name", "exp_name", "workspace"):
        leaf = experiment.words.get(name)
        yield name, _same(getattr(experiment, name), leaf.origin if leaf else "")
    yield "framework", _same(module.framework, module.framework_origin)
    sections: Mapping[str, Mapping[str, Leaf]] = {"env": experiment.env, **experiment.launchers}
    for section, entries in sections.items():
        for key, leaf in entries.items():
            name = f"{section}.{key}"
            yield name, _same(typed(subject.words.options.get(name), leaf), leaf.origin)


def _settings(subject: Subject) -> Iterator[tuple[str, Side]]:
    """Core's own parameters, with their defaults."""
    for name, value in subject.settings.values.items():
        yield name, _same(value, subject.module.origin(name))


def _native(subject: Subject) -> Iterator[tuple[str, Side]]:
    """What the library gets, by its own names, and what was asked where that is another value."""
    translation = subject.translation or Translation(native={}, entry="", layout=Layout())
    listed: tuple[Mapped | Adjusted, ...] = (*translation.mapping, *translation.adjusted)
    rows = {row.native: row for row in listed}
    for name, used in translation.native.items():
        row = rows.get(name)
        key = row.path if row else name
        if not any(owner_of(path, (key,)) for path in subject.module.params):
            yield name, Side(asked=_unset(name, subject).asked, used=used, origin="default")
        else:
            asked = row.asked if isinstance(row, Adjusted) else used
            yield name, Side(asked=asked, used=used, origin=subject.module.origin(key))


def _asked(subject: Subject) -> Iterator[tuple[str, Side]]:
    for key, leaf in subject.module.params.items():
        yield key, _same(typed(subject.words.parameter(key), leaf), leaf.origin)
