"""Importing a selected plugin."""

from __future__ import annotations

import importlib
from functools import reduce

from primus_core.contract.markers import CONTRACT
from primus_core.discovery.plugins import PluginInfo
from primus_core.errors import DependencyError


def load(info: PluginInfo) -> object:
    """Import a plugin and return the object that its entry point names.

    Raises:
        DependencyError: it is contested, it cannot be imported, or it was made for another contract.
    """
    if info.state != "ok":
        raise DependencyError(f"the {info} cannot be used", why=_sentence(info.problem), remedy=_repair(info))
    try:
        module = importlib.import_module(info.module)
        plugin: object = reduce(getattr, filter(None, info.attribute.split(".")), module)
    except (Exception, SystemExit) as error:
        raise _failed(info, error) from error
    _check_contract(info, getattr(module, "CONTRACT", CONTRACT))
    return plugin


def last_line(error: BaseException) -> str:
    """The last line of a traceback: ``ValueError: bad``."""
    import traceback  # here: dear, and for what fails alone

    return traceback.format_exception_only(error)[-1].strip()


def place(error: BaseException) -> str:
    """``file:line`` of the statement that failed; empty where there is none."""
    import traceback  # here: dear, and for what fails alone

    if isinstance(error, SyntaxError) and error.filename:
        return f"{error.filename}:{error.lineno}"
    frames = [frame for frame in traceback.extract_tb(error.__traceback__) if not frame.filename.startswith("<frozen")]
    return f"{frames[-1].filename}:{frames[-1].lineno}" if frames else ""


def _failed(info: PluginInfo, error: BaseException) -> DependencyError:
    remedy = _repair(info)
    if isinstance(error, ModuleNotFoundError) and error.name:
        needed = error.name.partition(".")[0]
        remedy = f"Install what provides the module {needed!r}, or repair the plugin. {remedy}"
    return DependencyError(
        f"the {info} fails when it is imported", where=place(error), why=last_line(error), remedy=remedy
    )


def _check_contract(info: PluginInfo, declared: object) -> None:
    if declared == CONTRACT:
        return
    older = isinstance(declared, int) and declared < CONTRACT
    raise DependencyError(
        f"the {info} was made for another contract of primus-core",
        why=f"It declares CONTRACT = {declared!r}; this primus-core has {CONTRACT}.",
        remedy=f"Upgrade {'it' if older else 'primus-core'}: "
        f"`pip install --upgrade {info.distribution if older else 'primus-core'}`.",
    )


def _repair(info: PluginInfo) -> str:
    if info.state == "duplicate":
        return f"Remove one of them, for instance `pip uninstall {info.distribution}`."
    name = info.distribution
    return f"`pip install --force-reinstall {name}` repairs it, `pip uninstall {name}` removes it."


def _sentence(text: str) -> str:
    return text[:1].upper() + text[1:] + "."
