"""What is said about a plugin that breaks the contract."""

from __future__ import annotations

from collections.abc import Sequence

from pluggy import PluginValidationError

from primus_core.discovery import PluginInfo
from primus_core.discovery.loading import last_line, place
from primus_core.errors import DependencyError
from primus_core.parameters import nearest


def failed(info: PluginInfo, hook: str, error: Exception) -> DependencyError:
    return DependencyError(
        f"the {info} failed in {hook}",
        where=place(error),
        why=last_line(error),
        remedy=f"This is a fault of {info.distribution}: report it there with the traceback that --debug shows.",
    )


def wrong_result(info: PluginInfo, hook: str, wanted: str, result: object) -> DependencyError:
    return DependencyError(
        f"the {info} returned {'nothing' if result is None else f'a {type(result).__name__}'} from {hook}",
        why=f"The hook returns {wanted}.",
        remedy=f"This is a fault of {info.distribution}: report it there.",
    )


def misspelt(info: PluginInfo, hook: str, known: Sequence[str]) -> DependencyError:
    meant = nearest(hook, known)
    return DependencyError(
        f"the {info} implements an unknown hook {hook!r}",
        why=f"The hooks are {', '.join(sorted(known))}.",
        remedy=f"{f'{meant!r} is probably meant. ' if meant else ''}Report it to {info.distribution}.",
    )


def wrong_arguments(info: PluginInfo, error: PluginValidationError) -> DependencyError:
    return DependencyError(
        f"the {info} implements a hook with wrong arguments",
        why=" ".join(str(error).splitlines()[1:]),
        remedy=f"A version of {info.distribution} made for this primus-core is needed: "
        f"`pip install --upgrade {info.distribution}`.",
    )


def wrapper(info: PluginInfo, hook: str) -> DependencyError:
    return DependencyError(
        f"the {info} wraps the hook {hook!r} of other plugins",
        why="A plugin may change only its own results.",
        remedy=f"This is a fault of {info.distribution}: report it there.",
    )


def no_hook(info: PluginInfo, known: Sequence[str]) -> DependencyError:
    return DependencyError(
        f"the {info} implements no hook",
        why=f"The hooks are {', '.join(sorted(known))}; a function is one when `primus_core.contract` marks it.",
        remedy=f"This is a fault of {info.distribution}: report it there.",
    )
