"""``primus config explain EXP KEY``: why a value is what it is."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence

from primus_core.cli.config.asking import Asker, add_format, add_hardware, add_overrides, config_parser
from primus_core.codec import to_json
from primus_core.errors import ExitCode
from primus_core.explain.elsewhere import Elsewhere, elsewhere
from primus_core.explain.explanation import Explanation, Step, explain
from primus_core.explain.verdicts import hardware
from primus_core.explain.vocabulary import Vocabulary
from primus_core.parameters import Parameter, portable
from primus_core.pipeline import Judged
from primus_core.yamlfile import written


def main(argv: Sequence[str], env: Mapping[str, str]) -> int:
    """Print one explanation; returns the exit code."""
    parser = config_parser("explain", "Tell where a value comes from, what it overrode and what becomes of it.")
    parser.add_argument("experiment", help="experiment file (YAML)")
    parser.add_argument("key", help="a parameter, or a path in the file: lr, env.NCCL_DEBUG, modules.pre_trainer.model")
    add_overrides(parser)
    add_format(parser)
    add_hardware(parser)
    args = parser.parse_intermixed_args(argv)
    asker = Asker.of(args, env)
    judged = asker.judged(args.experiment)
    explanation = explain(judged, asker.words(judged), args.key)
    others = _others(asker, judged, explanation.key)
    if args.format == "json":
        text = json.dumps({**json.loads(to_json(explanation)), "elsewhere": json.loads(to_json(others))}, indent=2)
    else:
        text = "\n".join([*_lines(explanation, judged, env), *_elsewhere(others)])
    asker.tell(text.rstrip("\n"), judged.experiment)
    return ExitCode.OK


def _others(asker: Asker, judged: Judged, key: str) -> tuple[Elsewhere, ...]:
    """What the other installed back ends make of a portable parameter."""
    if key not in portable():
        return ()
    path = asker.args.experiment

    def judge(framework: str) -> tuple[Judged, Vocabulary]:
        other = asker.with_framework(framework)
        found = other.judged(path)
        return found, other.words(found)

    names = sorted({plugin.name for plugin in asker.plugins.of("primus.backends")} - {judged.module.framework})
    return elsewhere(names, key, judge)


def _elsewhere(others: Sequence[Elsewhere]) -> Iterator[str]:
    for other in others:
        reaches = f"{other.native} = {written(other.native_value)}" if other.native else other.fate or "cannot train it"
        why = f" ({other.why})" if other.why else ""
        yield f"  {'with ' + other.framework:<16}{reaches}{why}"


def _lines(told: Explanation, judged: Judged, env: Mapping[str, str]) -> Iterator[str]:
    note = f"  (set as {told.spelled})" if told.spelled else "" if told.set_by else "  (nobody set it)"
    yield f"{told.key}: {written(told.value)}{note}"
    for name, text in (*_sources(told, judged, env), *_fate(told, judged), *_parameter(told.parameter)):
        yield f"  {name:<12}{text}"


def _sources(told: Explanation, judged: Judged, env: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    step = told.set_by
    if step:
        yield "set at", _place(step)
        if step.text is not None and written(step.value, step.text) != written(told.value):
            yield "written as", written(step.value, step.text)
        if step.variables:
            yield "from", ", ".join(f"${{{name}}}{_absence(name, env)}" for name in step.variables)
    for below in told.overrode:
        yield "overrode", f"{written(below.value, below.text)}, {_place(below)}{_from(below)}"
    if told.unset_at:
        yield "taken away", f"{told.unset_at} (!unset)"
    if not step:
        yield "to set it", f"{told.path} in {judged.experiment.file}"


def _place(step: Step) -> str:
    return step.origin if step.origin == step.layer else f"{step.origin} ({step.layer})"


def _absence(name: str, env: Mapping[str, str]) -> str:
    known = name in env or name == "PRIMUS_STDLIB"  # which resolving an experiment sets itself
    return "" if known else " (not set: its default)"


def _from(step: Step) -> str:
    return f", from {', '.join(f'${{{name}}}' for name in step.variables)}" if step.variables else ""


def _fate(told: Explanation, judged: Judged) -> Iterator[tuple[str, str]]:
    library = judged.module.framework
    if told.native:
        yield library, f"{told.native} = {written(told.native_value)}"
    if told.fate == "adjusted":
        yield "adjusted", told.why
    elif told.fate == "unused":
        yield "unused", told.why
    elif told.why:
        yield "note", told.why
    if told.fate == "core" and told.parameter:
        yield "read by", "Primus itself"
    if told.native or told.fate == "unused":
        yield "judged for", hardware(judged)


def _parameter(parameter: Parameter | None) -> Iterator[tuple[str, str]]:
    if parameter is None:
        return
    null = " or null" if parameter.nullable else ""
    yield "type", f"{parameter.type}{null}"
    yield "default", written(parameter.default)
    if parameter.choices:
        yield "choices", ", ".join(map(written, parameter.choices))
    if parameter.help:
        yield "help", " ".join(parameter.help.split())
