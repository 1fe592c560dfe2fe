"""What core demands of every translation."""

from __future__ import annotations

from collections.abc import Collection, Iterator

from primus_core.errors import DependencyError
from primus_core.experiment import Module
from primus_core.plan import Translation


def check_translation(module: Module, translation: Translation, core_names: Collection[str]) -> None:
    """Check that each parameter that was set has exactly one fate: mapped, adjusted or unused.

    A row for a group (``profiler``) speaks for its entries (``profiler.steps``).

    Args:
        core_names: parameters that core itself reads; the translation may leave them out.

    Raises:
        DependencyError: names the keys; it is a fault of the back end, not of the experiment.
    """
    problems = [*_fates(module, translation, core_names), *_contradictions(translation)]
    if problems:
        raise DependencyError(
            f"the back end {module.framework!r} does not account for every parameter",
            why="\n".join(problems),
            remedy="This is a fault of the back end's package: report it there. Removing the parameters avoids it.",
        )


def _fates(module: Module, translation: Translation, core_names: Collection[str]) -> Iterator[str]:
    """The parameters that have no fate, or several."""
    fates = {
        "mapped": {row.path for row in translation.mapping},
        "adjusted": {row.path for row in translation.adjusted},
        "unused": {row.path for row in translation.unused},
    }
    for key, leaf in sorted(module.params.items()):
        names = _with_groups(key)
        found = [fate for fate, paths in fates.items() if not paths.isdisjoint(names)]
        nothing_asked = leaf.value == {} or leaf.origin.layer == "default" or not names.isdisjoint(core_names)
        if len(found) > 1 or not (found or nothing_asked):
            yield f"`{key}` ({leaf.origin}) is {' and '.join(found) or 'neither mapped, adjusted nor unused'}"


def _contradictions(translation: Translation) -> Iterator[str]:
    """Rows that promise a value which the library will not get."""
    for row in translation.mapping:
        if row.native not in translation.native:
            yield f"`{row.path}` is mapped to `{row.native}`, which is not among the native values"
        elif translation.native[row.native] != row.value:
            used = translation.native[row.native]
            yield f"`{row.path}` is mapped to `{row.native}` = {row.value!r}, and the native value is {used!r}"


def _with_groups(key: str) -> set[str]:
    """A dotted key and the groups it is in."""
    parts = key.split(".")
    return {".".join(parts[:length]) for length in range(1, len(parts) + 1)}
