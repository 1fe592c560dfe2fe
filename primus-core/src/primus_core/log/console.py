"""How events look on the console: pure functions from an event to one line of text.

The rank's parent uses them for plain output, ``primus run`` for what it renders itself.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from primus_core.log.events import Event
from primus_core.log.records import one_line
from primus_core.quantities import duration


def line(event: Event, step_seconds: float | None = None) -> str | None:
    """The line for an event; None for a kind that the console does not show.

    Args:
        step_seconds: how long a step takes, for the time left of metrics.
    """
    kind = event.get("kind")
    if kind == "metrics":
        return metrics_line(event["row"], step_seconds)
    if kind == "progress":
        return progress_line(event)
    if kind == "notice":
        return topic_line(str(event["topic"]), str(event["text"]))
    if kind == "output":
        return str(event["text"])
    return record_line(event) if kind == "record" else None


def topic_line(topic: str, text: str) -> str:
    """``data        4.7 MB of text``: what is said before and after training stands in two columns."""
    return f"{one_line(topic):<12}{one_line(text)}"


def metrics_line(row: Mapping[str, Any], step_seconds: float | None = None) -> str:
    """``iteration 20/100  loss 3.412  lr 9.8e-04  grad norm 1.21  18,400 tokens/s  0.111 s/step  9 s left``.

    Args:
        step_seconds: what the steps that are left will take each; None leaves the time left out.
    """
    parts = [
        f"iteration {row['iteration']}" + (f"/{row['train_iters']}" if row.get("train_iters") else ""),
        _figure("loss ", row.get("loss"), ".4g", keep_zeros=True),
        _figure("lr ", row.get("lr"), ".1e"),
        _figure("grad norm ", row.get("grad_norm"), ".3g"),
        _figure("", row.get("tokens_per_second"), ",.0f", " tokens/s"),
        _figure("", row.get("step_seconds"), ".3g", " s/step"),
        time_left(row, step_seconds),
    ]
    return "  ".join(part for part in parts if part)


def time_left(row: Mapping[str, Any], step_seconds: float | None) -> str:
    """``9 s left``; empty when nothing is left or known."""
    last, done = row.get("train_iters"), row.get("iteration")
    if step_seconds is None or not last or not done or done >= last:
        return ""
    return f"{duration((last - done) * step_seconds)} left"


def progress_line(event: Event) -> str:
    """``tokenizing  1,200,000/4,800,000 bytes  25 %``."""
    done, total, unit = event["done"], event.get("total"), event["unit"]
    if not total:
        return f"{one_line(event['what'])}  {done:,} {unit}"
    return f"{one_line(event['what'])}  {done:,}/{total:,} {unit}  {done * 100 // total} %"


def record_line(event: Event) -> str:
    """``warning, rank 1: event key=value``; only a log file has room for a traceback.

    With what `primus_core.submit.folding` counted: ``... (x 511 ranks)``.
    """
    text = f"{event['event']} {event['values']}" if event["values"] else event["event"]
    return f"{event['level']}, rank {event.get('rank', '?')}: {text}{_counted(event)}"


def _counted(event: Event) -> str:
    ranks, times, more = event.get("ranks", 1), event.get("times", 1), event.get("more", False)
    if ranks == 1 and not more:
        return f" (x {times:,})" if times > 1 else ""
    word = f"{'more ' * more}rank{'s' * (ranks != 1)}"
    return f" (x {ranks:,} {word}{f', {times:,} times' if times > ranks else ''})"


def _figure(before: str, value: object, spec: str, after: str = "", *, keep_zeros: bool = False) -> str:
    if value is None:
        return ""
    if isinstance(value, bool) or not isinstance(value, int | float):
        return f"{before}{value}{after}"
    # `#` keeps the number of digits constant, so that a column of losses is easy to read
    return f"{before}{value:{'#' + spec if keep_zeros else spec}}{after}"
