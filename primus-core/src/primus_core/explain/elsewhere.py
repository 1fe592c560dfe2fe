"""What a parameter becomes with the other back ends that are installed."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from attrs import frozen

from primus_core.errors import ErrorGroup, PrimusError
from primus_core.experiment import Value
from primus_core.explain.explanation import Fate, explain
from primus_core.explain.vocabulary import Vocabulary
from primus_core.pipeline import Judged


@frozen(kw_only=True)
class Elsewhere:
    """One parameter with one other back end."""

    framework: str
    fate: Fate | None = None
    """None: the experiment is none for it."""
    native: str = ""
    native_value: Value = None
    why: str = ""
    """Why it is adjusted or unused, or what is wrong."""


def elsewhere(
    frameworks: Iterable[str], name: str, judge: Callable[[str], tuple[Judged, Vocabulary]]
) -> tuple[Elsewhere, ...]:
    """What a portable parameter becomes with each of some back ends, whatever keeps them from training the experiment.

    Args:
        judge: judges the experiment for a back end.
    """
    return tuple(_with(framework, name, judge) for framework in frameworks)


def _with(framework: str, name: str, judge: Callable[[str], tuple[Judged, Vocabulary]]) -> Elsewhere:
    try:
        judged, words = judge(framework)
        if judged.translation is None:
            return Elsewhere(framework=framework, why=_first(judged.errors))
        told = explain(judged, words, name)
    except ErrorGroup as group:
        return Elsewhere(framework=framework, why=_first(group.errors))
    except PrimusError as error:
        return Elsewhere(framework=framework, why=_first((error,)))
    return Elsewhere(
        framework=framework, fate=told.fate, native=told.native, native_value=told.native_value, why=told.why
    )


def _first(errors: Iterable[Exception]) -> str:
    told = [error.what if isinstance(error, PrimusError) else str(error) for error in errors]
    more = f", and {len(told) - 1} more" if len(told) > 1 else ""
    return f"{told[0]}{more}" if told else "it has errors"
