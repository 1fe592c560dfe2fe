"""From where on a figure is doubtful, and from where on a failure."""

from __future__ import annotations

import math

import attrs

from primus_core.errors import ConfigError
from primus_core.experiment import Origin, Value
from primus_core.records import frozen


@frozen(kw_only=True)
class Limits:
    """All that a user may set, in a YAML file of these names."""

    warning: float = 0.10
    """Part by which a figure may be worse than the best of its peers, or than the baseline."""
    failure: float = 0.25
    specification_warning: float = 0.40
    """Part of the hardware's specified rate that the best size of a test has to reach."""
    specification_failure: float = 0.20
    clock_warning: float = 1.0
    """Seconds that a node's clock may be off the median of all."""
    clock_failure: float = 10.0

    @classmethod
    def of(cls, path: str | None) -> Limits:
        """Those of a file, and the defaults for what it does not name; None: the defaults.

        Raises:
            ConfigError: there is no such limit, or its value is none.
        """
        if path is None:
            return cls()
        from primus_core.yamlfile import Fields, load  # here: dear, and seldom given

        root = load(path)
        if not isinstance(root, Fields):
            raise ConfigError("not a file of limits", where=path, remedy="write lines such as `failure: 0.3`")
        return cls(**{name: _value(name, node.value, node.origin) for name, node in root.entries.items()})


def _value(name: str, value: Value, origin: Origin) -> float:
    known = [field.name for field in attrs.fields(Limits)]
    where = f"{origin.file}:{origin.line}"
    if name not in known:
        raise ConfigError(f"there is no limit {name!r}", where=where, remedy=f"choose from {', '.join(known)}")
    seconds = name.startswith("clock")
    most = math.inf if seconds else 1
    if isinstance(value, int | float) and not isinstance(value, bool) and 0 < value < most:
        return float(value)
    what = "seconds, such as 5" if seconds else "a part between 0 and 1, such as 0.25"
    raise ConfigError(f"{name} is no limit", where=where, remedy=f"give {what}")
