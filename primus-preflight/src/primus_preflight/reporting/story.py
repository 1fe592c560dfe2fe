"""What a report says, from top to bottom: the verdict, what is wrong and what to do; then figures and facts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator

from primus_core.quantities import utc_time
from primus_core.render.pages import Block, Heading, Notice, Page, Paragraph
from primus_core.render.tables import Tone
from primus_preflight.judging import Report, Verdict
from primus_preflight.judging.looks import applies
from primus_preflight.judging.report import FAULTY
from primus_preflight.model import Gathered
from primus_preflight.performance.tokens import Trial, tests_named
from primus_preflight.reporting.tables import absent_table, facts_table, faults_table, figures_table, nodes_table

TITLE = "Primus preflight"
FAILING, PASSING = "failing_nodes.txt", "passing_nodes.txt"
_TONES: dict[Verdict, Tone] = {"pass": "good", "warning": "doubtful"}


def whole(report: Report) -> Page:
    """All that is told."""
    blocks: list[Block] = [*_first(report), Heading("Performance", new_sheet=True)]
    blocks += _performance(report)
    blocks.append(Heading("What the nodes look like"))
    blocks += [table for table in (facts_table(report.gathered), absent_table(report.gathered)) if table.rows]
    blocks += [Paragraph(_judged_by(report)), Paragraph(_versions(report))]
    return Page(title=TITLE, blocks=tuple(blocks))


def _performance(report: Report) -> list[Block]:
    if not (report.gathered.tests or report.comparisons):
        return [Paragraph("No performance test was asked for.")]
    from primus_preflight.reporting.pictures import drawings  # here: a look alone has none

    tables = [figures_table(report)] if report.comparisons else []
    return [*drawings(report), *tables] or [Paragraph("No test gave a figure.")]


def _first(report: Report) -> Iterator[Block]:
    yield Notice(tone=_TONES.get(report.verdict, "bad"), text=headline(report), more=counts_of(report))
    yield Paragraph(about(report))
    if report.faults:
        yield faults_table(report)
    yield nodes_table(report)
    if any(one.verdict in FAULTY for one in report.nodes):
        use = f"sbatch --exclude=./{FAILING}, or --nodelist=./{PASSING} with --nodes"
        yield Paragraph(f"{FAILING} and {PASSING} beside this report hold one node a line: {use}.")


def headline(report: Report) -> str:
    bad = sum(one.verdict in FAULTY for one in report.nodes)
    if bad:
        return f"{report.verdict.upper()}: {bad:,} of {_many(len(report.nodes), 'node')} should not take part"
    if report.verdict in FAULTY:
        return f"{report.verdict.upper()}: between nodes; each node by itself passes"
    texts = {"pass": "PASS: nothing is wrong", "warning": "PASS, with warnings"}
    return f"{texts[report.verdict]} on {_many(len(report.nodes), 'node')}"


def counts_of(report: Report) -> str:
    counts = Counter(one.verdict for one in report.nodes)
    verdicts: tuple[Verdict, ...] = ("missing", "failure", "error", "warning", "pass")
    words = {"failure": "failed", "error": "not tested", "warning": "with warnings", "pass": "passed"}
    return ", ".join(f"{counts[one]:,} {words.get(one, one)}" for one in verdicts if counts[one])


def about(report: Report) -> str:
    gathered = report.gathered
    ended = max((node.ended for node in gathered.nodes), default=0.0)
    when = f", ended {utc_time(ended)}" if ended else ""
    run = f"Run {gathered.run_id}: " if gathered.run_id else ""
    of_all = f" of {gathered.expected_nodes:,}" if gathered.expected_nodes else ""
    return f"{run}{_many(len(gathered.nodes), 'node')}{of_all} answered{when}. {_tests(report)}"


def _tests(report: Report) -> str:
    gathered = report.gathered
    if not gathered.tests:
        return "No performance test was asked for."
    absent = [trial.name for trial in tests_named(gathered.tests) if not _makes_sense(trial, gathered)]
    not_here = f" Not applicable here: {', '.join(absent)}." if absent else ""
    here = [test for test in gathered.tests if test not in absent]
    return f"Tests: {', '.join(here) or 'none'}.{not_here}"


def _makes_sense(trial: Trial, gathered: Gathered) -> bool:
    """Whether it was measured, or could have been; nothing is known of a cluster that did not answer."""
    applicable = any(applies(trial, node, len(gathered.nodes)) for node in gathered.nodes)
    return applicable or not gathered.nodes or any(one.test == trial.name for one in gathered.all_measurements)


def _judged_by(report: Report) -> str:
    limits = report.limits
    return (
        f"A figure that is worse than the best of its peers by more than {limits.warning:.0%} is a warning, by more "
        f"than {limits.failure:.0%} a failure; more is allowed where repetitions scatter. Less than "
        f"{limits.specification_warning:.0%} of the hardware's specification is a warning, less than "
        f"{limits.specification_failure:.0%} a failure; a clock is wrong by {limits.clock_warning:g} s and "
        f"{limits.clock_failure:g} s."
    )


def _versions(report: Report) -> str:
    versions = ", ".join(f"{name} {version}" for name, version in sorted(report.gathered.versions.items()))
    return f"Made with {versions}." if versions else "Versions are not known."


def _many(count: int, what: str) -> str:
    return f"{count:,} {what}{'s' if count != 1 else ''}"
