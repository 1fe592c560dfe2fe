"""Where an exception came from: the place that raised it, and the exceptions before it. Standard library only."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

_LONGEST_CHAIN = 8
_TEXT_CHARACTERS = 2000


def raised_at(error: BaseException) -> str:
    """``file:line in function`` of the frame that raised it; empty where it was never raised."""
    trace = error.__traceback__
    if trace is None:
        return ""
    while trace.tb_next is not None:
        trace = trace.tb_next
    code = trace.tb_frame.f_code
    return f"{code.co_filename}:{trace.tb_lineno} in {code.co_name}"


def chain_of(error: BaseException) -> list[Mapping[str, str]]:
    """The exceptions from which one came, the nearest first: `primus_core.outcome.Raised` for each."""
    return [
        {"type": type(one).__name__, "text": str(one)[:_TEXT_CHARACTERS], "at": raised_at(one)}
        for one in _before(error)
    ]


def _before(error: BaseException) -> Iterator[BaseException]:
    """As a traceback shows them: the cause, else what was being handled unless `raise ... from None` hides it."""
    seen = {id(error)}
    for _ in range(_LONGEST_CHAIN):
        before = error.__cause__ or (None if error.__suppress_context__ else error.__context__)
        if before is None or id(before) in seen:
            return
        seen.add(id(before))
        yield before
        error = before
