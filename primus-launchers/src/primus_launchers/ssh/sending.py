"""Which variables of the submitting shell the ranks on other hosts get."""

from __future__ import annotations

from collections.abc import Mapping

_OF_THE_LOGIN = frozenset(
    (
        *("HOME", "USER", "LOGNAME", "SHELL", "PWD", "OLDPWD", "SHLVL", "_", "MAIL"),
        *("HOSTNAME", "HOST", "TERM", "TTY", "DISPLAY", "WAYLAND_DISPLAY", "XAUTHORITY", "WINDOWID", "LS_COLORS"),
        *("TMPDIR", "TMP", "TEMP", "KRB5CCNAME", "TMUX", "TMUX_PANE", "STY"),
    )
)
"""They tell of a login, and each host has its own."""
_PREFIXES = ("SSH_", "XDG_", "DBUS_", "BASH_FUNC_")


def variables(env: Mapping[str, str]) -> dict[str, str]:
    """All, as with a launcher of this host, save those of the login. Secrets are among them."""
    return {name: value for name, value in env.items() if name not in _OF_THE_LOGIN and not name.startswith(_PREFIXES)}
