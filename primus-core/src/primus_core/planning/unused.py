"""One finding about all settings that have no effect, so that hundreds of rows stay one line to read."""

from __future__ import annotations

import shlex

from primus_core.experiment import Experiment, Module
from primus_core.outcome import Finding
from primus_core.plan import Target, Translation
from primus_core.planning.places import at_their_places, parameters_have

UNUSED = "config.no-effect"
VERSION = "config.backend-version"
_HAVE_NO_EFFECT = (UNUSED, VERSION, "launcher.section")


def unused_parameters(experiment: Experiment, module: Module, translation: Translation) -> tuple[Finding, ...]:
    """A warning that names the parameters which reach nothing here; nothing where there are none."""
    rows = [row for row in translation.unused if row.severity == "warning"]
    if not rows:
        return ()
    where = module.origin(rows[0].path)
    return (
        Finding(
            check=UNUSED,
            severity="warning",
            summary=f"{parameters_have(len(rows))} no effect here",
            evidence=", ".join(at_their_places([(row.path, module.origin(row.path)) for row in rows])),
            remedy=f"`primus config explain {shlex.quote(experiment.file)} {rows[0].path}` says why",
            where=where,
        ),
    )


def has_no_effect(finding: Finding) -> bool:
    """Whether it tells of settings that reach nothing: what ``--strict`` makes an error."""
    return finding.check in _HAVE_NO_EFFECT


def unused_version(module: Module, target: Target) -> tuple[Finding, ...]:
    """A warning where ``backend_version`` is not the version that the plan is made for."""
    leaf = module.params.get("backend_version")
    if leaf is None or leaf.value in (None, target.library_version):
        return ()
    return (
        Finding(
            check=VERSION,
            severity="warning",
            summary=f"`backend_version` is {leaf.value}, and {target.library_version} is installed here",
            evidence="the plan is made for what is installed; the parameter counts where the library is not",
            remedy=f"remove it, or install {leaf.value}",
            where=str(leaf.origin),
        ),
    )
