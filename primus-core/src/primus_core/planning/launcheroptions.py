"""The sections of launchers in an experiment: what they hold is known, typed and read, or the user hears about it."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from functools import cache
from pathlib import Path

from primus_core.errors import ConfigError, ErrorGroup, PrimusError, raise_all
from primus_core.experiment import Experiment, Leaf, Sections, Value
from primus_core.outcome import Finding
from primus_core.parameters import Parameter, Schema, check, load_schema, owner_of
from primus_core.planning.sections import CONTAINER, SLURM, as_written, put_together

_EARLY = Schema(
    library="primus",
    version="",
    parameters={
        parameter.name: parameter
        for parameter in (
            Parameter(name="direct.patch", type="list[str]", help="As --patch."),
            Parameter(name="direct.env_file", type="list[str]", help="As --env_file."),
            Parameter(name="direct.log_file", type="str", help="As --log_file."),
            Parameter(name="direct.silent", type="bool", default=False, help="As --silent."),
            Parameter(name="main.debug", type="bool", default=False, help="As --debug."),
            Parameter(name="main.dry_run", type="bool", default=False, help="As --dry-run."),
        )
    },
)
"""Options that count before an experiment is read: they stand in the launcher's file, or on the command line."""


def early_options(sections: Mapping[str, Mapping[str, Leaf]]) -> dict[str, Value]:
    """Those options of a launcher's file that count before an experiment is read, typed, without their section.

    Raises:
        ConfigError: one is of the wrong type, or `main:` has another; ``ErrorGroup`` for several.
    """
    asked = {**_early(sections["direct"]), **{f"main.{key}": leaf for key, leaf in sections["main"].items()}}
    values, errors = check(asked, _EARLY)
    raise_all(errors)
    return {name.partition(".")[2]: value for name, value in values.items()}


def later_options(leaves: Mapping[str, Leaf], *, files: Mapping[str, Leaf]) -> dict[str, Leaf]:
    """The options of `direct:` that are left when the early ones of files have done their work.

    Args:
        files: the section of the launchers' files, whose early options are done; an experiment's come too late.
    """
    return {key: leaf for key, leaf in leaves.items() if not (_is_early(f"direct.{key}") and leaf is files.get(key))}


def _early(leaves: Mapping[str, Leaf]) -> dict[str, Leaf]:
    return {f"direct.{key}": leaf for key, leaf in leaves.items() if _is_early(f"direct.{key}")}


def _is_early(name: str) -> bool:
    return owner_of(name, _EARLY.parameters) is not None


@cache
def launcher_schema() -> Schema:
    """The options of launchers that this version knows, each as ``section.option``."""
    return load_schema((Path(__file__).parent.parent / "launcher_options.json").read_text(encoding="utf-8"))


def launcher_options(experiment: Experiment, section: str) -> dict[str, Value]:
    """What the experiment sets in a launcher's section.

    Returns:
        Typed values by option; as they were written for a launcher whose options this version does not know.

    Raises:
        ConfigError: an option is unknown or of the wrong type; ``ErrorGroup`` for several.
    """
    return typed_options(section, experiment.launchers.get(section, {}))


def typed_options(section: str, leaves: Mapping[str, Leaf]) -> dict[str, Value]:
    """As `launcher_options`, of one section."""
    if section not in _known_sections():
        return {key: as_written(leaf) for key, leaf in leaves.items()}
    early = _early(leaves) if section == "direct" else {}
    later = {key: leaf for key, leaf in leaves.items() if f"{section}.{key}" not in early}
    values, errors = check({f"{section}.{key}": leaf for key, leaf in later.items()}, launcher_schema())
    raise_all([*errors, *(_too_late(name, leaf) for name, leaf in early.items())])
    typed = {name.removeprefix(f"{section}."): value for name, value in values.items()}
    return _with_arguments(typed) if section == CONTAINER else typed


def typed_sections(sections: Sections) -> dict[str, dict[str, Value]]:
    """As `typed_options`, of all sections; the errors of all are told together.

    Raises:
        ConfigError: an option is unknown or of the wrong type; ``ErrorGroup`` for several.
    """
    typed: dict[str, dict[str, Value]] = {}
    errors: list[PrimusError] = []
    for name, leaves in sections.items():
        try:
            typed[name] = typed_options(name, leaves)
        except ErrorGroup as group:
            errors.extend(group.errors)
        except ConfigError as error:
            errors.append(error)
    raise_all(errors)
    return typed


def sections_of(experiment: Experiment, cwd: str) -> dict[str, dict[str, Value]]:
    """As `typed_sections`, of an experiment."""
    return typed_sections(put_together([experiment.launchers], cwd))


def _with_arguments(options: Mapping[str, Value]) -> dict[str, Value]:
    """The options of `container:`, those of the runtime as words for its command line."""
    foreign, given = options.get("options"), options.get("arguments")
    words = [word for key, value in foreign.items() for word in _words(key, value)] if isinstance(foreign, dict) else []
    kept = {key: value for key, value in options.items() if key != "options"}
    return {**kept, "arguments": [*(given if isinstance(given, list) else []), *words]} if words else kept


def _words(key: str, value: Value) -> Iterator[Value]:
    """``ulimit: [a, b]`` is ``--ulimit=a --ulimit=b``, ``privileged: true`` is ``--privileged``."""
    if isinstance(value, list):
        for one in value:
            yield from _words(key, one)
    elif value is True:
        yield f"--{key}"
    elif value not in (None, False):
        yield f"--{key}={value}"


def check_sections(experiment: Experiment, launcher: str) -> tuple[Finding, ...]:
    """Check the options that this version knows, and warn of every section that this run does not read.

    Args:
        launcher: the one that starts the run; it may come from another package and have a section of its own.

    Raises:
        ConfigError: a known section has an unknown option or one of the wrong type; ``ErrorGroup`` for several.
    """
    sections_of(experiment, os.sep)
    sections = {**experiment.launchers, "platform": experiment.platform}
    read = {launcher, SLURM, *_known_sections()}
    return tuple(_unread(sections, read))


def _too_late(name: str, leaf: Leaf) -> ConfigError:
    option = name.removeprefix("direct.")
    return ConfigError(
        f"`{name}` is not for an experiment",
        where=str(leaf.origin),
        why="it counts before the experiment is read",
        remedy=f"write --{option} on the command line, or put it into the launcher's file (`primus direct --config F`)",
    )


def _known_sections() -> set[str]:
    return {name.partition(".")[0] for name in launcher_schema().parameters}


def _unread(sections: Mapping[str, Mapping[str, Leaf]], read: set[str]) -> Iterator[Finding]:
    for section, leaves in sections.items():
        if leaves and section not in read:
            yield Finding(
                check="launcher.section",
                severity="warning",
                summary=f"`{section}:` is not read: this run has no use for it, and its keys are not checked",
                evidence=", ".join(f"{section}.{key} ({leaf.origin})" for key, leaf in leaves.items()),
                remedy=f"Remove `{section}:`, or keep it for runs that read it.",
                where=str(next(iter(leaves.values())).origin),
            )
