"""Why one value is what it is."""

from __future__ import annotations

from typing import Literal

from attrs import frozen

from primus_core.errors import ConfigError
from primus_core.experiment import Leaf, Value
from primus_core.explain.leaves import Place, leaves, place_of
from primus_core.explain.vocabulary import Vocabulary
from primus_core.parameters import Parameter, coerce, nearest, owner_of
from primus_core.pipeline import Judged
from primus_core.plan import Adjusted, Mapped
from primus_core.planning.settings import core_schema

Fate = Literal["mapped", "adjusted", "unused", "core", "unset", "unknown"]
"""What becomes of a value: the library gets it as it is; gets another one; does not get it; Primus itself reads it;
nobody set it; the experiment has errors, so that nobody can say."""


@frozen(kw_only=True)
class Step:
    """A value that was set somewhere, and overridden or not."""

    value: Value
    text: Value
    """As it was written, where YAML reads another type."""
    origin: str
    """``file:line``."""
    layer: str
    variables: tuple[str, ...] = ()
    """Environment variables that it came from."""


@frozen(kw_only=True)
class Explanation:
    """One value: where it comes from, what it overrode, and what becomes of it."""

    path: str
    """In the experiment file; where it would be set, for one that nobody set."""
    key: str
    spelled: str = ""
    """The other name under which it was set; empty where it is the same."""
    value: Value
    """Of the parameter's type, where it is known."""
    set_by: Step | None
    """None: nobody set it."""
    overrode: tuple[Step, ...] = ()
    """The values below, the strongest first."""
    unset_at: str = ""
    """``file:line`` of the ``!unset`` that took a preset's value away."""
    fate: Fate
    library: str = ""
    native: str = ""
    """The library's name of it; empty where the library never sees it."""
    native_value: Value = None
    why: str = ""
    """Why it is adjusted or unused."""
    parameter: Parameter | None = None
    """None where the back end does not describe it."""


def explain(judged: Judged, words: Vocabulary, name: str) -> Explanation:
    """Explain what a path or a parameter's name means in an experiment.

    Raises:
        ConfigError: nobody set it and nobody knows it; names the nearest.
    """
    asked = place_of(judged.experiment, judged.module, name)
    place = _as_it_was_set(judged, words, asked)
    parameter = words.parameter(place.key)
    if place.leaf is None and parameter is None and words.foreign_key(place.key) is None:
        raise _unknown(judged, words, place, name)
    fate = _Fate.of(judged, words, place)
    unset = judged.module.unset.get(place.key) if place.is_parameter else None
    return Explanation(
        path=place.path,
        key=asked.key,
        spelled=place.key if place.key != asked.key else "",
        value=typed(parameter, place.leaf),
        set_by=_step(place.leaf) if place.leaf else None,
        overrode=tuple(map(_step, place.leaf.overrode)) if place.leaf else (),
        unset_at=str(unset) if unset else "",
        fate=fate.name,
        library=words.library,
        native=fate.native,
        native_value=fate.value,
        why=fate.why,
        parameter=parameter,
    )


def _as_it_was_set(judged: Judged, words: Vocabulary, place: Place) -> Place:
    """The place of the same parameter under the name that the experiment uses for it."""
    if place.leaf or not place.is_parameter or judged.translation is None:
        return place
    native = words.native(place.key)
    rows: tuple[Mapped | Adjusted, ...] = (*judged.translation.mapping, *judged.translation.adjusted)
    others = [row.path for row in rows if row.native == native and row.path in judged.module.params]
    return place_of(judged.experiment, judged.module, others[0]) if others else place


@frozen(kw_only=True)
class _Fate:
    name: Fate
    native: str = ""
    value: Value = None
    why: str = ""

    @classmethod
    def of(cls, judged: Judged, words: Vocabulary, place: Place) -> _Fate:
        if not place.is_parameter or owner_of(place.key, core_schema().parameters):
            return cls(name="core" if place.leaf else "unset")
        if judged.translation is None:
            why = "the experiment has errors: `primus config validate` tells them"
            return cls(name="unknown", why=why) if place.leaf else cls(name="unset")
        return cls._row(judged, place) or cls._unset(judged, words, place)

    @classmethod
    def _row(cls, judged: Judged, place: Place) -> _Fate | None:
        """What the translation says of the key, or of the group that it is an entry of."""
        translation = judged.translation
        if translation is None:
            return None
        for row in translation.adjusted:
            if owner_of(place.key, (row.path,)):
                return cls(name="adjusted", native=row.native, value=row.used, why=row.why)
        for same in translation.mapping:
            if owner_of(place.key, (same.path,)):
                return cls(name="mapped", native=same.native, value=same.value)
        for left in translation.unused:
            if owner_of(place.key, (left.path,)):
                return cls(name="unused", why=left.why)
        return None

    @classmethod
    def _unset(cls, judged: Judged, words: Vocabulary, place: Place) -> _Fate:
        """Nobody set it under this name: another spelling may be set, or the library's default is used."""
        foreign = words.foreign_key(place.key)
        native = words.native(place.key)
        parameter = words.parameters.get(native)
        default = parameter.default if parameter else None
        values = judged.translation.native if judged.translation else {}
        known = native if native in words.parameters else ""
        return cls(name="unset", native=known, value=values.get(native, default), why=foreign.why if foreign else "")


def typed(parameter: Parameter | None, leaf: Leaf | None) -> Value:
    """The value in the parameter's type; as it is where there is no parameter, or the value has another type."""
    if leaf is None:
        return parameter.default if parameter else None
    if parameter is None or (leaf.value is None and not parameter.nullable):
        return leaf.value
    try:
        return coerce(parameter, leaf)
    except ConfigError:
        return leaf.value


def _step(leaf: Leaf) -> Step:
    origin, layer = str(leaf.origin), leaf.origin.layer
    return Step(value=leaf.value, text=leaf.text, origin=origin, layer=layer, variables=leaf.variables)


def _unknown(judged: Judged, words: Vocabulary, place: Place, name: str) -> ConfigError:
    names = [*judged.module.params, *words.parameters, *words.foreign, *words.options, *leaves(judged.experiment)]
    inside = [known for known in names if known.startswith(f"{name}.")]
    if inside:
        remedy = f"it is a group: explain one of its parameters, such as `{inside[0]}`"
    elif meant := nearest(place.key, names):
        remedy = f"did you mean `{meant}`?"
    else:
        remedy = f"`primus config schema --framework {judged.module.framework}` lists the names"
    library = words.library or judged.module.framework
    return ConfigError(
        f"unknown key `{name}`",
        where=judged.experiment.file,
        why=f"neither the experiment nor {library} has it",
        remedy=remedy,
    )
