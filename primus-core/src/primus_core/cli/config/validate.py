"""``primus config validate FILES...``: everything that is wrong with experiment files, without starting one."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from functools import partial

from attrs import evolve

from primus_core.cli.arguments import add_framework, name_option
from primus_core.cli.config.asking import Asker, add_format, add_hardware, config_parser
from primus_core.codec import to_json
from primus_core.errors import ConfigError, ExitCode
from primus_core.experiment import Experiment
from primus_core.explain.verdicts import Remark, Verdict, verdict
from primus_core.pipeline import Judged


def main(argv: Sequence[str], env: Mapping[str, str]) -> int:
    """Print every problem and one line for each file; returns 2 where a file has an error."""
    about = (
        "Tell everything that is wrong with experiment files. Names, types and legality are checked; nothing starts."
    )
    parser = config_parser("validate", about)
    parser.add_argument("words", nargs="+", metavar="FILE", help="experiment files (YAML); key=value overrides in all")
    parser.add_argument("--files", action="store_true", help="look at data and checkpoint files too, as a run does")
    parser.add_argument("--strict", action="store_true", help="a setting that has no effect is an error")
    add_framework(parser)
    add_format(parser)
    add_hardware(parser)
    args = parser.parse_intermixed_args(argv)
    args.overrides = [word for word in args.words if "=" in word and not os.path.exists(word)]
    files = [word for word in args.words if word not in args.overrides]
    if not files:
        raise ConfigError("no file to validate", remedy="`primus config validate exp.yaml`")
    asker = Asker.of(args, env)
    experiments: list[Experiment] = []
    verdicts = [verdict(file, partial(_judged, asker, file, experiments, argv)) for file in files]
    text = to_json(verdicts).rstrip("\n") if args.format == "json" else "\n".join(_lines(verdicts))
    asker.tell(text, *experiments)
    return ExitCode.USAGE if any(one.count("error") for one in verdicts) else ExitCode.OK


def _judged(asker: Asker, file: str, experiments: list[Experiment], argv: Sequence[str]) -> Judged:
    """Judge a file; its experiment, whose secrets are not to be told, is kept."""
    judged = asker.judged(file, files=asker.args.files, strict=asker.args.strict)
    experiments.append(judged.experiment)
    return evolve(judged, errors=tuple(name_option(error, argv) for error in judged.errors))


def _lines(verdicts: Sequence[Verdict]) -> Iterator[str]:
    for one in verdicts:
        for remark in one.remarks:
            yield from _remark(remark)
    for one in verdicts:
        judged = f" for {one.judged_for}" if one.judged_for else ""
        yield f"{one.file}: {one.outcome}{judged}"


def _remark(remark: Remark) -> Iterator[str]:
    yield f"{remark.where}: {remark.severity}: {remark.what}"
    for name, text in (("why:", remark.why), ("try:", remark.remedy)):
        lines = text.strip().splitlines()
        yield from (f"  {name if number == 0 else '    '} {line}" for number, line in enumerate(lines))
