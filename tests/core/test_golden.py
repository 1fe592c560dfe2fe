"""Golden screens keep words and drop what differs from run to run."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest

from tests import golden


@pytest.mark.parametrize(
    ("printed", "kept"),
    [
        ("at: training, on {host}, 2 min 3 s after\n", "at: training, on <HOST>, <DURATION> after\n"),
        ("log: {tmp}/w/runs/20261202-050607-a1b2c3/x  \n\n", "log: <TMP>/w/runs/<RUN>/x\n"),
        ("used 1.5 GiB, 12 ms, process 4711\n", "used <SIZE>, <DURATION>, process <PID>\n"),
        ("since 2026-12-02T05:06:07.123Z, port 29500\n", "since <TIME>, port <PORT>\n"),
        ("\x1b[2Kiteration 3/10\n", "iteration 3/10\n"),
        ("error: rank 1 of 4 failed: ValueError: 7\n", "error: rank 1 of 4 failed: ValueError: 7\n"),
    ],
)
def test_what_differs_from_run_to_run_is_replaced(tmp_path: Path, printed: str, kept: str) -> None:
    """Paths, hosts, times, sizes, processes and run ids go; ranks, iterations, numbers of errors stay."""
    assert golden.normalised(printed.format(tmp=tmp_path, host=socket.gethostname())) == kept


def test_a_changed_word_fails(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A screen that is not the kept one fails and shows the difference; writing keeps it."""
    monkeypatch.setattr(golden, "GOLDEN", tmp_path)
    monkeypatch.setenv("PRIMUS_GOLDEN", "write")
    golden.check("one\ntwo\n", "screen")
    monkeypatch.delenv("PRIMUS_GOLDEN")
    golden.check("one\ntwo\n", "screen")
    with pytest.raises(AssertionError, match=r"-two\n\+three"):
        golden.check("one\nthree\n", "screen")
