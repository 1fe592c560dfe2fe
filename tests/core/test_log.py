"""Events on the wire, and how records, metrics and progress look."""

from __future__ import annotations

import json
import math
import os
from pathlib import Path

import numpy as np
import pytest

from primus_core.log.console import line, metrics_line, progress_line, record_line
from primus_core.log.events import decode, encode, to_json
from primus_core.log.levels import level_of, strength
from primus_core.log.metrics import NAMES, complete_row
from primus_core.log.pace import Pace
from primus_core.log.records import Origin, head, one_line, quoted, utf8
from primus_core.log.redaction import Redactor
from primus_core.log.thinning import Thinning
from primus_core.log.wire import Run, completed, encode_record, event_of, parts, runs

ROW = {
    "iteration": 20,
    "train_iters": 100,
    "loss": 3.4123,
    "lr": 0.00098,
    "grad_norm": 1.2099,
    "tokens_per_second": 18400.4,
    "step_seconds": 0.1113,
}


def test_an_event_survives_the_wire() -> None:
    """Decoding gives what was encoded, in one line, whatever is in the text."""
    event = {"kind": "notice", "topic": "state", "text": "a\nb\x1e\u2028 \udce9 ü"}
    wire = encode(event)
    assert wire.startswith(b"\x1e")
    assert wire.count(b"\n") == 1
    assert decode(wire) == event


@pytest.mark.parametrize(
    "text",
    [
        b"",
        b"plain",
        b'{"kind": "notice"}',
        b"\x1e{torn",
        b"\x1e[1]",
        b'\x1e{"kind": "a"}{"kind": "b"}',
        b'\x1e{"kind": 3}',
    ],
)
def test_other_output_is_no_event(text: bytes) -> None:
    """What is no event, or half of one, decodes to None."""
    assert decode(text) is None


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (math.nan, '"NaN"'),
        ([-math.inf, 1.5], '["-Infinity", 1.5]'),
        ({"a": (math.inf, {"b": math.nan})}, '{"a": ["Infinity", {"b": "NaN"}]}'),
        (np.float32(0.5), "0.5"),
        (np.array([1, 2]), '"[1 2]"'),
        ({1: Path("x")}, '{"1": "x"}'),
        ({(1, 2): np.float64("nan")}, '{"(1, 2)": "NaN"}'),
    ],
)
def test_every_value_becomes_strict_json(value: object, text: str) -> None:
    """Numbers without a JSON spelling become text, scalars of numpy numbers, other objects their text."""
    assert to_json(value) == text
    json.loads(text, parse_constant=lambda name: pytest.fail(name))


def test_a_training_line() -> None:
    """Iteration, loss, learning rate, norm, throughput, step time and time left, with units."""
    assert metrics_line(ROW, 0.1113) == (
        "iteration 20/100  loss 3.412  lr 9.8e-04  grad norm 1.21  18,400 tokens/s  0.111 s/step  9 s left"
    )


def test_a_training_line_leaves_out_what_is_not_known() -> None:
    """Null figures and a time left that nobody knows have no place in the line, a loss that is not a number has."""
    assert metrics_line(ROW).endswith("0.111 s/step")
    assert metrics_line({"iteration": 3, "loss": "NaN", "lr": None}) == "iteration 3  loss NaN"


def paces(*seconds: object) -> list[float | None]:
    pace = Pace()
    return [pace.follow({"step_seconds": one}) for one in seconds]


def test_the_first_step_counts_until_there_is_another() -> None:
    """Warming up takes long, and is no measure of the steps to come."""
    assert paces(None, 8.0, 2.0, 1.0) == [None, 8.0, 2.0, 1.5]


def test_one_slow_step_changes_the_pace_little() -> None:
    """The average is over about ten steps: an outlier counts a tenth, a lasting change arrives; a row without a time
    changes nothing."""
    steady = [1.0] * 30
    assert paces(*steady, 11.0, "NaN", None)[-3:] == pytest.approx([2.0, 2.0, 2.0])
    assert paces(*steady, *[3.0] * 40)[-1] == pytest.approx(3.0, abs=0.05)


def test_a_progress_line() -> None:
    """Done and total with unit and percentage, or just what is done."""
    event = {"kind": "progress", "what": "tokenizing", "done": 1200, "total": 4800, "unit": "lines"}
    assert progress_line(event) == "tokenizing  1,200/4,800 lines  25 %"
    assert progress_line({**event, "total": None}) == "tokenizing  1,200 lines"


def test_a_record_line_names_the_rank() -> None:
    """Warnings and errors say their rank and values."""
    event = {"kind": "record", "level": "error", "source": "lib", "event": r"no\nluck", "values": "n=1", "rank": 3}
    assert record_line(event) == r"error, rank 3: no\nluck n=1"
    assert record_line({**event, "values": ""}) == r"error, rank 3: no\nluck"
    assert line(event) == record_line(event)
    assert line({"kind": "phase", "name": "train"}) is None


ORIGIN = Origin("run1", "node7", 2, "trainer")
COLUMNS = utf8(ORIGIN.columns)
TIME = 1769851800.1239


def wired(level: str, event: str, source: str = "lib", **values: object) -> bytes:
    return encode_record(level, event, source, values, TIME).removesuffix(b"\n")


def test_a_record_in_a_file_has_fixed_columns() -> None:
    """UTC time to the millisecond, run, host, rank, module, level, source, then event, values and traceback."""
    line = wired("warning", "slow disk", "my lib", path="/a b", traceback="at line 1\nof f", ms=3.0, ok=True)
    assert completed(Run("warning", [line]), COLUMNS).decode() == (
        '2026-01-31T09:30:00.123Z run1 node7 rank-2 trainer WARNING my_lib slow disk path="/a b" ms=3.0 ok=true '
        r'traceback="at line 1\nof f"'
    )
    assert head(ORIGIN, TIME, "info", "stdout") == "2026-01-31T09:30:00.123Z run1 node7 rank-2 trainer INFO stdout "


@pytest.mark.parametrize(
    ("event", "values", "text"),
    [
        ("no values", {}, "no values"),
        ("ün\n\udce9", {"n": 1, "why": 'a "b"\x1c\u2028\udce9'}, r'ün\n\udce9 n=1 why="a \"b\"\u001c\u2028\udce9"'),
        ("marks \x1c\x1d\x1e\x1f", {"a\x1f\nb": 1}, r"marks \x1c\x1d\x1e\x1f a\x1f\nb=1"),
        ("", {"traceback": "one\ntwo"}, r' traceback="one\ntwo"'),
    ],
)
def test_a_record_survives_the_wire(event: str, values: dict[str, object], text: str) -> None:
    """The line of the file and the parts of a record say the same, whatever is in event, names and values."""
    line = wired("info", event, "some\x1flib", **values)
    assert line.count(b"\n") == 0
    (run,) = runs([line])
    record = parts(line, COLUMNS)
    assert run == Run("info", [line])
    assert completed(run, COLUMNS).decode() == f"{record.head}{record.body}" == f"{record.head}{text}"
    assert (record.source, event_of(line)) == (r"some\x1flib", record.event)


def test_records_that_arrive_together_stay_in_order() -> None:
    """Runs of one level are written at once; other events and torn records are left for themselves."""
    first, second, third = wired("info", "1"), wired("info", "2"), wired("error", "3")
    other, torn = encode({"kind": "phase", "name": "train"})[:-1], first[:20] + second
    found = list(runs([first, second, third, other, first, torn, b"", b"rest", b"\x1d9"]))
    assert found == [
        Run("info", [first, second]),
        Run("error", [third]),
        Run(None, [other]),
        Run("info", [first]),
        Run(None, [torn]),
        Run(None, [b""]),
        Run(None, [b"rest"]),
        Run(None, [b"\x1d9"]),
    ]
    text = completed(found[0], COLUMNS).decode()
    assert [line.rsplit(" ", 1)[1] for line in text.split("\n")] == ["1", "2"]


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (12, "12"),
        (1e-5, "1e-05"),
        (math.nan, "NaN"),
        (np.float32("-inf"), "-Infinity"),
        (np.int64(3), "3"),
        (None, "null"),
        (Path("/a/b"), "/a/b"),
        ("", '""'),
        ("a=b", '"a=b"'),
        ("ü", "ü"),
        ({"k": [1, None]}, '{"k": [1, null]}'),
    ],
)
def test_a_value_is_bare_or_json(value: object, text: str) -> None:
    """Numbers and single words stand bare, also those of numpy and of other objects; the rest is JSON."""
    assert quoted(value) == text


def test_control_characters_are_escaped_and_colours_removed() -> None:
    """A record stays one line and cannot move a terminal's cursor."""
    assert one_line("a\r\nb\x1b[1;32mgreen\x1b[0m\x07\tc") == "a\\r\\nbgreen\\x07\tc"


def test_a_row_has_all_columns_in_order() -> None:
    """Core adds time, run and rank; what is not given is null; what does not exist is refused."""
    row = complete_row(ROW, time=1.0, run_id="r", rank=2)
    assert tuple(row) == NAMES
    assert (row["time"], row["run_id"], row["rank"], row["loss"], row["mfu"]) == (1.0, "r", 2, 3.4123, None)
    with pytest.raises(ValueError, match="no such metric: speed"):
        complete_row({"speed": 1}, time=1.0, run_id="r", rank=0)


@pytest.mark.parametrize(("last", "shown"), [(100, 21), (7, 7), (1000, 21), (0, 100)])
def test_plain_consoles_get_about_twenty_iterations(last: int, shown: int) -> None:
    """The first, the last and about twenty between are shown; all where the end is not known."""
    thinning = Thinning()
    rows = [{"iteration": n, "train_iters": last} for n in range(1, (last or 100) + 1)]
    kept = [row["iteration"] for row in rows if thinning.shows({"kind": "metrics", "row": row})]
    assert len(kept) == shown
    assert (kept[0], kept[-1]) == (1, last or 100)


def test_plain_consoles_get_progress_every_ten_seconds_and_its_end() -> None:
    """A preparation of under ten seconds is one line."""
    clock = iter([0.0, 4.0, 11.0, 12.0, 13.0])
    thinning = Thinning(lambda: next(clock))
    events = [{"kind": "progress", "what": "w", "done": done, "total": 5} for done in range(1, 6)]
    assert [event["done"] for event in events if thinning.shows(event)] == [3, 5]


@pytest.mark.parametrize(
    ("secret", "text", "kept"),
    [
        ("s3cret", "a s3cret, S3CRET", "a ***, S3CRET"),
        ('q"uo\\te', json.dumps({"k": 'q"uo\\te'}), '{"k": "***"}'),
        ("line one\nline two", "x line two y", "x *** y"),
        ("kéy-é", json.dumps("kéy-é"), '"***"'),
        ("abc", "abc", "abc"),
        ("", "nothing", "nothing"),
    ],
)
def test_secrets_are_masked(secret: str, text: str, kept: str) -> None:
    """A value is masked as it is, inside JSON and line by line; values too short to be secrets are not."""
    redact = Redactor([secret])
    assert redact(text) == kept
    assert redact.finds(text.encode()) == (kept != text)


def test_a_secret_of_odd_bytes_is_found_as_files_have_it() -> None:
    """The value of a variable that is no UTF-8 is written with escapes, and known there."""
    redact = Redactor([os.fsdecode(b"caf\xe9-key")])
    assert redact.finds(utf8("my caf\udce9-key"))
    assert redact(r"my caf\udce9-key") == "my ***"


def test_the_longer_of_two_secrets_wins() -> None:
    """A secret that contains another leaves no rest of itself."""
    assert Redactor(["token", "token-and-more"])("token-and-more token") == "*** ***"


def test_only_named_variables_are_secret() -> None:
    """The redactor knows the variables that the plan names, set or not."""
    redact = Redactor.of_environment(["A_TOKEN", "UNSET_KEY"], {"A_TOKEN": "hidden", "B": "visible"})
    assert redact("hidden visible") == "*** visible"


@pytest.mark.parametrize(
    ("name", "expected"), [("DEBUG", 0), ("info", 1), ("Warn", 2), ("CRITICAL", 3), ("exception", 3), ("whatever", 1)]
)
def test_levels_have_a_strength(name: str, expected: int) -> None:
    """Names in any case, with those that other libraries use."""
    assert strength(name) == expected


@pytest.mark.parametrize(
    ("number", "level"), [(5, "debug"), (10, "debug"), (25, "info"), (30, "warning"), (50, "error")]
)
def test_numbers_of_logging_have_a_level(number: int, level: str) -> None:
    """Python's numbers and those between them."""
    assert level_of(number) == level
