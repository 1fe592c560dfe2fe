"""The hosts that a run is started on: as the command line, a file or the experiment names them."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from pathlib import Path

from primus_core.errors import ConfigError, raise_all
from primus_core.records import frozen

_HOST = re.compile(
    r"(?:(?P<user>[A-Za-z0-9_.][A-Za-z0-9_.-]*)@)?"
    r"(?:(?P<name>[A-Za-z0-9_][A-Za-z0-9_.-]*)|\[(?P<address>[0-9A-Fa-f:.]+(?:%[\w.]+)?)\])"
    r"(?::(?P<port>[0-9]{1,5}))?"
)
_PORTS = range(1, 1 << 16)


@frozen(kw_only=True)
class Host:
    """One host as ``ssh`` knows it: a name of the network or of the user's ssh configuration."""

    name: str
    user: str = ""
    port: int | None = None
    """None: as the ssh configuration says."""

    @classmethod
    def of(cls, text: str, where: str) -> Host:
        """Read ``[user@]host[:port]``; an IPv6 address stands in brackets.

        Raises:
            ConfigError: it is something else.
        """
        found = _HOST.fullmatch(text)
        port = int(found["port"]) if found and found["port"] else None
        if found is None or (port is not None and port not in _PORTS):
            raise ConfigError(
                f"{text!r} is no host",
                where=where,
                why="a host is [user@]name[:port]; an IPv6 address stands in brackets",
                remedy="write node1, me@node1, node1:2222 or [fe80::1]:22",
            )
        return cls(name=found["name"] or found["address"], user=found["user"] or "", port=port)

    def __str__(self) -> str:
        name = f"[{self.name}]" if ":" in self.name else self.name
        return f"{self.user}@{name}" * bool(self.user) + name * (not self.user) + (f":{self.port}" if self.port else "")


@frozen
class _Named:
    """A host with the place that names it."""

    host: Host
    where: str


def hosts_of_words(words: Sequence[str], where: str) -> tuple[Host, ...]:
    """The hosts of ``--hosts`` or of ``ssh: hosts:``, in their order.

    Raises:
        ConfigError: there is none, one is no host, or one is named twice; ``ErrorGroup`` for several.
    """
    named = [word.strip() for word in words]
    if not any(named):
        raise ConfigError("no host is named", where=where, remedy="--hosts node1,node2")
    return _checked((word, where) for word in named)


def hosts_of_file(path: str, folder: str) -> tuple[Host, ...]:
    """The hosts of a file: one a line; ``#`` begins a comment.

    Args:
        folder: what a relative path is relative to.

    Raises:
        ConfigError: it cannot be read, is empty, or a line of it is wrong; ``ErrorGroup`` for several.
    """
    try:
        text = Path(folder, path).read_text(encoding="utf-8")
    except (OSError, UnicodeDecodeError) as error:
        why = (error.strerror or str(error)) if isinstance(error, OSError) else "it is no UTF-8 text"
        raise ConfigError("the hostfile cannot be read", where=path, why=why, remedy="check the path") from None
    lines = ((line.partition("#")[0].strip(), f"{path}:{number}") for number, line in enumerate(text.splitlines(), 1))
    named = [(word, where) for word, where in lines if word]
    if not named:
        raise ConfigError("the hostfile names no host", where=path, remedy="write one host a line: [user@]name[:port]")
    return _checked(named)


def _checked(named: Iterator[tuple[str, str]] | Sequence[tuple[str, str]]) -> tuple[Host, ...]:
    seen: dict[tuple[str, int | None], _Named] = {}
    errors: list[ConfigError] = []
    for word, where in named:
        try:
            host = Host.of(word, where)
        except ConfigError as error:
            errors.append(error)
            continue
        first = seen.setdefault((host.name, host.port), _Named(host, where))
        if first.host is not host:
            errors.append(_twice(host, where, first.where))
    raise_all(errors)
    return tuple(one.host for one in seen.values())


def _twice(host: Host, where: str, first: str) -> ConfigError:
    why = "each host is started once, with all its ranks" + (f"; it is also at {first}" if first != where else "")
    return ConfigError(
        f"the host {host.name} is named twice", where=where, why=why, remedy="name it once; --nproc says how many ranks"
    )


def refuse_hosts(launcher: str, option: str) -> ConfigError:
    """What is said to ``--hosts`` for a launcher that starts no hosts of the user's choice."""
    return ConfigError(
        f"{option} is for the launcher ssh, and this run's launcher is {launcher}",
        why=f"{launcher} does not start ranks on hosts that are named to it",
        remedy=f"add --launcher ssh, or leave {option} out",
    )
