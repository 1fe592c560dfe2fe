"""What happens before a plan is made: modes, the launchers' files, and patch scripts."""

from __future__ import annotations

import argparse
import os
from collections.abc import Callable, Mapping
from pathlib import Path

from primus_core.cli.modes import Mode
from primus_core.cli.output import say
from primus_core.errors import ConfigError, raise_all
from primus_core.experiment import Sections, Value
from primus_core.log.console import topic_line
from primus_core.log.levels import LEVELS
from primus_core.planning.launcheroptions import early_options
from primus_core.planning.sections import put_together
from primus_core.resolve import launcher_files

_LEVEL = "PRIMUS_LOG_LEVEL"
_OF_HOST = frozenset(
    (
        "PATH",
        "LD_LIBRARY_PATH",
        "PYTHONPATH",
        "PYTHONHOME",
        "VIRTUAL_ENV",
        "HOME",
        "PWD",
        "OLDPWD",
        "SHLVL",
        "TMPDIR",
        "_",
    )
)
"""Variables that mean places and processes of a host, and would mislead in a container."""
_FEW = 12
_FOREIGN = b"#!"


def in_mode(args: argparse.Namespace, mode: Mode | None) -> argparse.Namespace:
    """The arguments of a command, as the modes before it have it started.

    Raises:
        ConfigError: they ask for another launcher.
    """
    if mode and args.launcher not in (None, mode.launcher):
        what = f"--launcher {args.launcher} in `{mode.launcher}`"
        raise ConfigError(what, why=f"{mode.launcher} starts the ranks", remedy="leave --launcher out")
    if mode and args.single:
        raise ConfigError(
            f"--single in `{mode.launcher}`", why="torchrun starts the ranks", remedy="leave --single out"
        )
    args.mode = mode
    return args


def with_launcher_file(args: argparse.Namespace, env: Mapping[str, str]) -> argparse.Namespace:
    """The arguments, with the launchers' files, and those options of them that count before an experiment is read.

    Scripts and env files of a file, whose paths are relative to it, come before those of the command line.

    Raises:
        ConfigError: a file is wrong, or PRIMUS_LOG_LEVEL names no level.
    """
    check_level(env)
    added = argparse.Namespace(**vars(args))
    added.sections = file_sections(args.launcher_config, env)
    found = early_options(added.sections)
    for name in ("patch", "env_file"):
        own = [_beside(added.sections, name, str(path)) for path in _list(found.get(name))]
        setattr(added, name, [*own, *getattr(args, name)])
    if added.log_file is None and isinstance(log := found.get("log_file"), str):
        added.log_file = _beside(added.sections, "log_file", log)
    for name in ("silent", "debug", "dry_run"):
        setattr(added, name, getattr(args, name) or found.get(name) is True)
    return added


def file_sections(path: str | None, env: Mapping[str, str]) -> Sections:
    """The options of launchers that files say: the named one, ``~/.primus.yaml``, the one that comes with Primus.

    Raises:
        ConfigError: a file is wrong.
    """
    return put_together(launcher_files(path, env, os.getcwd()), os.getcwd(), env.get("HOME", ""))


def _beside(sections: Sections, option: str, path: str) -> str:
    """A path of the section `direct:`, which is relative to its file."""
    return os.path.join(os.path.dirname(sections["direct"][option].origin.file), path)


def _list(value: Value) -> list[Value]:
    return value if isinstance(value, list) else []


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

    What they set anew is in ``args.exported`` too: a container inherits the variables alone that are known.

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

    after = run_patch_scripts(scripts, env, ended)
    args.exported = {name: value for name, value in after.items() if env.get(name) != value and name not in _OF_HOST}
    return after


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
