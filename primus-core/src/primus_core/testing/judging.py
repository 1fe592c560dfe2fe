"""What is wrong with a value that a plugin returned, in sentences; nothing where it is well-formed."""

from __future__ import annotations

import ast
import math
import re
from collections.abc import Iterator, Mapping, Sequence
from typing import get_args

from packaging.requirements import InvalidRequirement, Requirement
from packaging.specifiers import InvalidSpecifier, SpecifierSet

from primus_core.discovery import find_module
from primus_core.errors import PrimusError
from primus_core.outcome import Cause, Finding, Severity
from primus_core.plan import Accelerator, PatchSpec
from primus_core.planning.patchorder import check_targets, ordered

_REFERENCE = re.compile(r"[A-Za-z_]\w*(\.[A-Za-z_]\w*)*:[A-Za-z_]\w*(\.[A-Za-z_]\w*)*")
_KEBAB = re.compile(r"[a-z0-9]+(-[a-z0-9]+)*")
_CHECK = re.compile(r"[a-z0-9]+([.-][a-z0-9]+)*")


def value_problems(value: object, path: str) -> Iterator[str]:
    """Why a value is not one that JSON has."""
    if isinstance(value, list):
        for number, item in enumerate(value):
            yield from value_problems(item, f"{path}[{number}]")
    elif isinstance(value, dict):
        yield from (f"{path} has the key {key!r}, no text" for key in value if not isinstance(key, str))
        for key, item in value.items():
            yield from value_problems(item, f"{path}.{key}")
    elif isinstance(value, float) and not math.isfinite(value):
        yield f"{path} is {value}, which JSON does not have"
    elif value is not None and type(value) not in (bool, int, float, str):
        yield f"{path} is a {type(value).__name__}, which JSON does not have"


def finding_problems(findings: Sequence[Finding]) -> Iterator[str]:
    """Why findings cannot be told to a user."""
    for finding in findings:
        if not _CHECK.fullmatch(finding.check):
            yield f"{finding.check!r} is no name of a check, such as `host.disk-space`"
        if finding.severity not in get_args(Severity) or finding.cause not in get_args(Cause):
            yield f"{finding.check}: no such severity or cause: {finding.severity}, {finding.cause}"
        if not finding.summary.strip() or "\n" in finding.summary:
            yield f"{finding.check}: the summary {finding.summary!r} is not one line"
        if finding.severity == "error" and not finding.remedy:
            yield f"{finding.check}: an error without a remedy"


def patch_problems(patches: Sequence[PatchSpec]) -> Iterator[str]:
    """Why patches cannot be planned together."""
    for patch in patches:
        yield from (f"{patch.id}: {problem}" for problem in _patch_problems(patch))
    try:
        ordered(patches)
        check_targets(patches)
    except PrimusError as error:
        yield f"{error}: {error.why}"


def _patch_problems(patch: PatchSpec) -> Iterator[str]:
    if not _KEBAB.fullmatch(patch.id):
        yield "the id is not in kebab-case"
    for reference in (patch.target, patch.replacement):
        if not is_reference(reference):
            yield f"{reference!r} is not `module:qualified.name`"
    if not patch.reason.strip():
        yield "it says no reason"
    if not set(patch.when) <= set(get_args(Accelerator)):
        yield f"no such accelerator among {', '.join(patch.when)}"
    try:
        Requirement(patch.requires or "any")
        SpecifierSet(patch.python)
    except (InvalidRequirement, InvalidSpecifier) as error:
        yield f"no version range: {error}"


def is_reference(text: str) -> bool:
    """Whether a text has the form ``module:qualified.name``."""
    return _REFERENCE.fullmatch(text) is not None


def entry_problem(entry: str) -> str:
    """Why ``module:function`` cannot be an entry; empty where it can. Reads the module's source, imports nothing."""
    module, _, name = entry.partition(":")
    if not is_reference(entry):
        return f"{entry!r} is not `module:function`"
    spec = find_module(module)
    if spec is None or spec.origin is None:
        return f"the module {module} is not there"
    with open(spec.origin, encoding="utf-8") as file:
        bound = set(_bound(ast.parse(file.read())))
    return "" if name in bound else f"{module} has no function {name!r}"


def _bound(tree: ast.Module) -> Iterator[str]:
    """Names that a module defines or imports."""
    for node in tree.body:
        if isinstance(node, (ast.FunctionDef, ast.ClassDef)):
            yield node.name
        elif isinstance(node, (ast.Import, ast.ImportFrom)):
            yield from (alias.asname or alias.name for alias in node.names)
        elif isinstance(node, ast.Assign):
            yield from (target.id for target in node.targets if isinstance(target, ast.Name))


def variable_problems(env: Mapping[str, str]) -> Iterator[str]:
    """Why variables cannot be set for a process."""
    for name, value in env.items():
        if not isinstance(name, str) or not isinstance(value, str) or "=" in name or "\0" in name + value or not name:
            yield f"the variable {name!r} = {value!r}"
