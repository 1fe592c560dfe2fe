"""How records look to a reader."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator

from primus_core.logview.records import Record

_INDENT = "    "


class Text:
    """``09:30:00.123  rank 3 node7  WARNING primus  slow disk path="/a b"``, below a line with the date (UTC).

    A traceback follows in lines of its own.
    """

    def __init__(self, ranks: Iterable[int]) -> None:
        self._rank = max((len(str(rank)) for rank in ranks), default=1)
        self._host = 0
        self._date = ""

    def lines(self, record: Record) -> Iterator[str]:
        date, _, clock = record.time.rstrip("Z").partition("T")
        if date != self._date:
            self._date = date
            yield f"{date} UTC"
        self._host = max(self._host, len(record.host))
        who = f"rank {record.rank:>{self._rank}} {record.host:<{self._host}}"
        yield f"{clock}  {who}  {record.level.upper():<7} {record.source}  {record.text}"
        yield from (f"{_INDENT}{line}" for line in record.more)


class Json:
    """One JSON object a line."""

    def __init__(self, run_id: str, module: str) -> None:
        self._common = {"run_id": run_id, "module": module}

    def lines(self, record: Record) -> Iterator[str]:
        told = {
            "time": record.time,
            **self._common,
            "host": record.host,
            "rank": record.rank,
            "level": record.level,
            "source": record.source,
            "text": record.text,
        }
        yield json.dumps({**told, "traceback": "\n".join(record.more)} if record.more else told)
