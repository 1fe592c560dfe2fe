"""The log files of a rank under a limit."""

from __future__ import annotations

from pathlib import Path

import pytest

from primus_core.rank.files import Limits, LogFiles
from tests.core.rankruns import Ended, Ranks, settings

LIMITS = Limits(bytes=100, backups=2)


def write(folder: Path, *texts: str, limits: Limits = LIMITS, together: bool = False) -> LogFiles:
    """Write texts of level info, one after the other or at once."""
    files = LogFiles(str(folder), "debug", limits)
    for text in texts:
        files.append("info", text.encode())
        if not together:
            files.flush()
    files.flush()
    files.close()
    return files


def names(folder: Path, level: str) -> list[str]:
    return sorted(path.name for path in folder.glob(f"{level}.log*"))


def history(folder: Path, level: str) -> str:
    """All that is left, oldest first."""
    return "".join((folder / name).read_text() for name in reversed(names(folder, level)))


@pytest.mark.parametrize("together", [False, True])
def test_a_full_file_is_put_aside(tmp_path: Path, together: bool) -> None:
    """Lines go on in a new file before the limit is passed; the newest full file is number 1, the oldest are deleted,
    whether lines come one by one or together."""
    lines = [f"{number:039}\n" for number in range(20)]
    write(tmp_path, *lines, together=together)
    for level in ("debug", "info"):
        assert names(tmp_path, level) == [f"{level}.log", f"{level}.log.1", f"{level}.log.2"]
        assert history(tmp_path, level) == "".join(lines[-6:])
    assert (tmp_path / "info.log.1").read_text() == "".join(lines[-4:-2])
    assert names(tmp_path, "warning") == ["warning.log"]


def test_a_file_may_be_full_to_the_last_byte(tmp_path: Path) -> None:
    """What fits exactly is not put aside, the next byte is."""
    write(tmp_path, "x" * 99 + "\n")
    assert names(tmp_path, "info") == ["info.log"]
    write(tmp_path, "\n")
    assert (tmp_path / "info.log").read_text() == "\n"


def test_a_limit_holds_over_restarts(tmp_path: Path) -> None:
    """What an earlier start wrote counts, also where its limit was another."""
    write(tmp_path, *["x" * 59 + "\n"] * 5, limits=Limits(bytes=0, backups=0))
    for number in range(4):
        write(tmp_path, f"{number:059}\n")
    assert history(tmp_path, "info") == "".join(f"{number:059}\n" for number in range(1, 4))


def test_fewer_backups_than_before_delete_the_others(tmp_path: Path) -> None:
    """When a file is put aside, all that are more than the setting allows are gone."""
    lines = [f"{number:079}\n" for number in range(9)]
    write(tmp_path, *lines[:8], limits=Limits(bytes=100, backups=5))
    write(tmp_path, lines[8], limits=Limits(bytes=100, backups=1))
    assert history(tmp_path, "info") == "".join(lines[7:])
    write(tmp_path, lines[0], limits=Limits(bytes=100, backups=0))
    assert history(tmp_path, "info") == lines[0]


@pytest.mark.parametrize("text", ["a" * 250, "ü" * 125, "€" * 90, "a" + "😀" * 62])
def test_a_line_that_is_longer_than_a_file_goes_on_in_the_next(tmp_path: Path, text: str) -> None:
    """Nothing of it is lost, no file is over its limit, and none ends within a character."""
    write(tmp_path, "before\n", f"{text}\n", "after\n", limits=Limits(bytes=100, backups=5))
    assert history(tmp_path, "info") == f"before\n{text}\nafter\n"
    assert max((tmp_path / name).stat().st_size for name in names(tmp_path, "info")) <= 100


def test_a_limit_below_a_character_still_ends(tmp_path: Path) -> None:
    """A limit that makes no sense costs log lines, no endless loop."""
    write(tmp_path, "€uro\n", limits=Limits(bytes=1, backups=1))
    assert (tmp_path / "info.log").read_bytes() == b"\n"


def test_no_limit_is_no_limit(tmp_path: Path) -> None:
    """Zero bytes: one file, whatever its size."""
    write(tmp_path, *["x" * 99 + "\n"] * 50, limits=Limits(bytes=0, backups=3))
    assert names(tmp_path, "info") == ["info.log"]


def test_metrics_are_never_put_aside(tmp_path: Path) -> None:
    """The limit is not for metrics.jsonl."""
    files = LogFiles(str(tmp_path), "debug", LIMITS)
    for _ in range(50):
        files.append_metrics("x" * 99 + "\n")
    assert [path.name for path in tmp_path.glob("metrics*")] == ["metrics.jsonl"]
    assert (tmp_path / "metrics.jsonl").stat().st_size == 5000


def test_a_file_that_cannot_be_put_aside_goes_on(tmp_path: Path) -> None:
    """Something stands in the way: no line is lost, and the trouble is told."""
    (tmp_path / "info.log.1").mkdir()
    (tmp_path / "info.log.1/x").touch()
    files = write(tmp_path, *["x" * 59 + "\n"] * 5, limits=Limits(bytes=100, backups=1))
    assert (tmp_path / "info.log").read_text().count("\n") == 5
    assert files.trouble is not None
    assert files.trouble.startswith("a full log file could not be put aside")


def test_a_file_that_somebody_deleted_is_begun_anew(tmp_path: Path) -> None:
    """Deleting a log while the rank writes it costs its lines up to the limit, and nothing after."""
    files = LogFiles(str(tmp_path), "debug", LIMITS)
    for number in range(3):
        files.append("info", b"%059d\n" % number)
        files.flush()
        if number == 1:
            (tmp_path / "info.log").unlink()
    assert (files.trouble, history(tmp_path, "info")) == (None, f"{0:059}\n{2:059}\n")


@pytest.fixture
def floods(tmp_path: Path) -> list[Ended]:
    """A rank that prints 20 MB, twice, with a limit."""
    ranks = Ranks(folder=tmp_path)
    plan = ranks.plan("floods", settings=settings(log_max_bytes=1_000_000, log_backups=2))
    return [ranks.run(plan), ranks.run(plan)]


def test_a_rank_obeys_its_settings(floods: list[Ended]) -> None:
    """20 MB of output, twice: three files of a level at most, none over the limit, all of whole lines, the end kept."""
    ended = floods[-1]
    assert [one.code for one in floods] == [0, 0]
    paths = sorted(ended.logs.glob("info.log*"))
    assert [path.name for path in paths] == ["info.log", "info.log.1", "info.log.2"]
    assert max(path.stat().st_size for path in paths) <= 1_000_000
    assert min(path.stat().st_size for path in paths[1:]) > 999_000
    lines = "".join(path.read_text() for path in paths).splitlines()
    assert all(line.count(" stdout x") == 1 and line.endswith("x" * 99) for line in lines)
