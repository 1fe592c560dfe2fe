"""What happens before a plan is made: the options of the launcher's file, and patch scripts."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Mapping
from pathlib import Path

from primus_core.cli.output import say
from primus_core.errors import ConfigError, raise_all
from primus_core.log.console import topic_line
from primus_core.log.levels import LEVELS
from primus_core.planning.launcheroptions import early_options
from primus_core.resolve import read_launcher_file

_LEVEL = "PRIMUS_LOG_LEVEL"
_FEW = 12
_FOREIGN = b"#!"


def with_launcher_file(args: argparse.Namespace, env: Mapping[str, str]) -> argparse.Namespace:
    """The arguments, with those options of the launcher's file that count before an experiment is read.

    Scripts and env files of the file, whose paths are relative to it, come before those of the command line.

    Raises:
        ConfigError: the file is wrong, or PRIMUS_LOG_LEVEL names no level.
    """
    check_level(env)
    if not args.launcher_config:
        return args
    found = early_options(read_launcher_file(args.launcher_config, env, os.getcwd()))
    folder = os.path.dirname(args.launcher_config)
    added = argparse.Namespace(**vars(args))
    for name in ("patch", "env_file"):
        paths = found.get(name)
        own = [os.path.join(folder, str(path)) for path in paths] if isinstance(paths, list) else []
        setattr(added, name, [*own, *getattr(args, name)])
    if added.log_file is None and isinstance(log := found.get("log_file"), str):
        added.log_file = os.path.join(folder, log)
    for name in ("silent", "debug", "dry_run"):
        setattr(added, name, getattr(args, name) or found.get(name) is True)
    return added


def check_level(env: Mapping[str, str]) -> None:
    """Refuse a PRIMUS_LOG_LEVEL that is no level.

    Raises:
        ConfigError: names those that are.
    """
    level = env.get(_LEVEL, "")
    if level and level.lower() not in LEVELS:
        names = ", ".join(name.upper() for name in LEVELS)
        raise ConfigError(f"{_LEVEL} is {level!r}", why="it names no level", remedy=f"one of {names}")


def patched(args: argparse.Namespace, env: Mapping[str, str], tell: Callable[[str], object] = say) -> Mapping[str, str]:
    """The environment that the patch scripts leave, as if this command had been started after them.

    A dry run tells of the scripts and does not run them.

    Args:
        tell: takes each line that they print, and what came of them.

    Raises:
        ConfigError: there is no such script, or it is not for bash.
        RunError: a script failed.
    """
    scripts = [os.path.abspath(path) for path in args.patch]
    raise_all([problem for path in scripts if (problem := _problem(path))])
    if not scripts or args.dry_run:
        return env
    from primus_core.submit.patchscripts import Patched, run_patch_scripts  # here: most runs have none

    def ended(one: Patched) -> None:
        for line in one.lines:
            tell(line)
        tell(topic_line("patch", f"{one.script} {_outcome(one.skipped, one.exported, one.unset)}"))

    return run_patch_scripts(scripts, env, ended)


def _problem(path: str) -> ConfigError | None:
    if not os.path.isfile(path):
        return ConfigError(f"--patch {path}: no such file", remedy="check the path")
    try:
        with Path(path).open("rb") as file:
            first = file.readline(256)
    except OSError as error:
        return ConfigError(f"--patch {path}: cannot be read", why=error.strerror or str(error))
    if first.startswith(_FOREIGN) and not any(word.endswith(b"sh") for word in first.split()):
        why = f"it starts with {first.decode(errors='replace').strip()}, and a patch script is sourced by bash"
        return ConfigError(f"--patch {path}: no shell script", why=why, remedy="call it from a shell script")
    return None


def _outcome(skipped: bool, exported: tuple[str, ...], unset: tuple[str, ...]) -> str:
    changes = [f"{verb} {_names(names)}" for verb, names in (("exports", exported), ("unsets", unset)) if names]
    return ", ".join(["skipped" if skipped else "done", *changes])


def _names(names: tuple[str, ...]) -> str:
    more = f" and {len(names) - _FEW} more" if len(names) > _FEW else ""
    return " ".join(names[:_FEW]) + more
