"""``primus compare RUN_A RUN_B``: two runs side by side, on the terminal and with charts in a folder."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from types import ModuleType

from primus_core import discovery, hooks
from primus_core.cli.arguments import Parser
from primus_core.cli.output import complain, say
from primus_core.compare.comparison import Comparison, compared
from primus_core.compare.measurements import measured
from primus_core.compare.page import CHARTS, comparison_page
from primus_core.compare.runs import Run, find_run
from primus_core.compare.texts import strict_json, with_texts
from primus_core.errors import ConfigError, DependencyError, ExitCode, PrimusError, RunError
from primus_core.explain.differences import Difference, Subject, differences
from primus_core.explain.vocabulary import Vocabulary, vocabulary
from primus_core.files import write_atomic
from primus_core.log.redaction import Redactor
from primus_core.planning.secrets import secret_names
from primus_core.planning.settings import core_schema
from primus_core.render.pages import Page, as_html, as_markdown, as_text

_HTML, _MARKDOWN = "compare.html", "compare.md"
_IMAGES = {name: f"{name}.png" for name in CHARTS}
_FILES = frozenset({_HTML, _MARKDOWN, *_IMAGES.values()})
"""All that is ever written into the folder."""


def main(argv: Sequence[str], env: Mapping[str, str]) -> int:
    """Print what differs and write the report; returns the exit code."""
    args = _parser().parse_args(argv)
    folder = None if args.output is None else _checked(Path(args.output))
    runs = find_run(args.before), find_run(args.after)
    figures = measured(runs[0]), measured(runs[1])
    found, known = _differences(runs)
    redact = Redactor.of_environment(secret_names(env), env)
    comparison = with_texts(compared(runs, figures, found, defaults_known=known), redact)
    page = comparison_page(comparison, figures)
    if folder:
        _write(folder, page, env)
    say(_formatted(args.format, comparison, page))
    if folder:
        complain(f"written to {folder}: {_HTML}, {_MARKDOWN}, {', '.join(_images(page).values())}\n", env)
    return ExitCode.OK


def _parser() -> Parser:
    about = "Compare two runs on the iterations that both have: experiment, loss, speed, memory, how they ended."
    parser = Parser(prog="primus compare", description=about, allow_abbrev=False)
    what = "a run's folder, an experiment's folder (its newest run), or a plan.json"
    parser.add_argument("before", metavar="RUN_A", help=what)
    parser.add_argument("after", metavar="RUN_B", help=what)
    files = f"write {_HTML}, {_MARKDOWN} and charts (PNG) here; needs primus-core[report]"
    parser.add_argument("--output", metavar="DIR", help=files)
    parser.add_argument("--format", choices=("text", "json", "markdown"), default="text", help="default: text")
    parser.add_argument("--debug", action="store_true", help="show tracebacks")
    return parser


def _formatted(wanted: str, comparison: Comparison, page: Page) -> str:
    if wanted == "json":
        return strict_json(comparison).rstrip("\n")
    return as_markdown(page, {}) if wanted == "markdown" else as_text(page)


def _differences(runs: tuple[Run, Run]) -> tuple[tuple[Difference, ...], bool]:
    """What the experiments mean differently, and whether the defaults of both back ends are known here."""
    plugins = discovery.scan()
    words = [_words(run, plugins) for run in runs]
    subjects = [
        Subject(
            experiment=run.experiment,
            module=run.module,
            settings=run.plan.settings,
            translation=run.plan.translation,
            words=known or Vocabulary(parameters=core_schema().parameters),
        )
        for run, known in zip(runs, words, strict=True)
    ]
    return differences(*subjects), all(words)


def _words(run: Run, plugins: discovery.Plugins) -> Vocabulary | None:
    """The names that the run's back end knows; None where it cannot be loaded here."""
    try:
        hosts = hooks.load_host(plugins, backend=run.module.framework, launcher=None, preflight=False)
        return vocabulary(hosts, run.plan.target.library_version)
    except PrimusError:
        return None


def _checked(folder: Path) -> Path:
    """A folder that is new, empty or of an earlier comparison.

    Raises:
        ConfigError: it is something else.
    """
    remedy = "give a folder that is new or empty"
    try:
        names = set(os.listdir(folder))
    except FileNotFoundError:
        return folder
    except OSError as error:
        raise ConfigError("--output is no usable folder", where=str(folder), why=str(error), remedy=remedy) from None
    others = sorted(names - _FILES)
    if others or (names and _HTML not in names):
        some = ", ".join((others or sorted(names))[:5])
        why = f"it holds what no comparison wrote: {some}"
        raise ConfigError("--output would mix files", where=str(folder), why=why, remedy=remedy)
    return folder


def _write(folder: Path, page: Page, env: Mapping[str, str]) -> None:
    """All files are made before the first is written, and those of an earlier comparison replaced."""
    images = _images(page)
    with _drawing(env) as drawing:
        files: dict[str, str | bytes] = {_HTML: as_html(page, drawing.svg)}
        files[_MARKDOWN] = f"{as_markdown(page, images)}\n"
        files |= {images[chart.name]: drawing.png(chart) for chart in page.charts}
    try:
        for name, content in files.items():
            write_atomic(folder / name, content)
        for name in _FILES - set(files):
            (folder / name).unlink(missing_ok=True)
    except OSError as error:
        raise RunError("cannot write the report", where=str(folder), why=str(error)) from None


def _images(page: Page) -> dict[str, str]:
    return {chart.name: _IMAGES[chart.name] for chart in page.charts}


@contextmanager
def _drawing(env: Mapping[str, str]) -> Iterator[ModuleType]:
    """What draws charts. Its library keeps a cache, in a folder of its own unless the environment names one."""
    if env.get("MPLCONFIGDIR"):
        yield _loaded()
        return
    with tempfile.TemporaryDirectory(prefix="primus-", ignore_cleanup_errors=True) as cache:
        os.environ["MPLCONFIGDIR"] = cache
        try:
            yield _loaded()
        finally:
            del os.environ["MPLCONFIGDIR"]


def _loaded() -> ModuleType:
    try:
        from primus_core.render import drawing  # here: only charts need its library
    except ModuleNotFoundError as error:
        raise DependencyError(
            "charts need matplotlib",
            why=str(error),
            remedy="pip install 'primus-core[report]'; without --output, the comparison needs nothing",
        ) from error
    return drawing
