"""Screens kept as golden text: what a user reads, word for word, without what differs from run to run.

`check(screen, "name")` compares with ``tests/golden/name.txt``; with ``PRIMUS_GOLDEN=write`` in the environment it
writes that file instead, to be read and committed.
"""

from __future__ import annotations

import difflib
import os
import re
import socket
import sys
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType

GOLDEN = Path(__file__).parent / "golden"
REPOSITORY = Path(__file__).parent.parent

# the last pattern: whether a rank has the same fault, or is ended before it comes to it, is a matter of time
_NUMBER = r"\d[\d,]*(?:\.\d+)?"
_PATTERNS = (
    (r"(?m)^(?:reading|tokenizing) .*\d %\n", ""),  # is shown where it lasts
    (r"\x1b\[[0-9;?]*[A-Za-z]", ""),  # colours, and what a live line erases
    (r"\b\d{8}-\d{6}-[0-9a-f]{6}\b", "<RUN>"),
    (r"\b\d{4}-\d\d-\d\d[T ]\d\d:\d\d:\d\d(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)?(?: UTC)?", "<TIME>"),
    (r"\b(?:\d+ d )?(?:\d+ h )?(?:\d+ min )?\d+(?:\.\d+)? (?:ms|s)\b", "<DURATION>"),
    (r"\b\d+ (?:d|h)(?: \d+ (?:h|min))?\b|\b\d+ min\b", "<DURATION>"),
    (rf"\b{_NUMBER} (?:[kMGT]i?B|bytes)\b", "<SIZE>"),
    (rf"\b{_NUMBER} (?:tokens/s|TFLOP/s|TFLOP an iteration)(?!\w)", "<SPEED>"),
    (r"(?i)\b(pid|process|processes)([ =:]+)\d+(?:, \d+)*\b", r"\1\2<PID>"),
    (r"(?<![\d.])(?:127\.0\.0\.1|0\.0\.0\.0|localhost|\[::1\]):\d{4,5}\b", "<ADDRESS>"),
    (r"(?i)\b(port|MASTER_PORT)([ =:]+)\d{4,5}\b", r"\1\2<PORT>"),
    (r'(File ")[^"]*/((?:site-packages|lib/python3\.\d+)/[^"]*", line )\d+', r"\1\2<N>"),
    (r"(<PREFIX>/lib/python)3\.\d+(/\S+?):\d+ in ", r"\1<V>\2:<N> in "),
    (r"\b0x[0-9a-f]{6,16}\b", "<ADDRESS>"),
    (r"(?<=other rank )failed in the same way|(?<=other ranks )failed in the same way", "ended in consequence"),
)


def check(screen: str, name: str, *, replace: Mapping[str, str] = MappingProxyType({})) -> None:
    """Fail where the screen is not the golden one.

    Args:
        screen: what was printed, as it was.
        name: of the file in ``tests/golden``, without ``.txt``.
        replace: regular expressions of what else differs from run to run, and what stands for each.
    """
    path, text = GOLDEN / f"{name}.txt", normalised(screen, replace)
    if os.environ.get("PRIMUS_GOLDEN") == "write":
        path.write_text(text, encoding="utf-8")
    kept = path.read_text(encoding="utf-8") if path.exists() else ""
    changes = difflib.unified_diff(kept.splitlines(), text.splitlines(), str(path), "printed now", lineterm="")
    assert kept == text, "\n".join(changes) + "\nPRIMUS_GOLDEN=write keeps what was printed"


def normalised(screen: str, replace: Mapping[str, str] = MappingProxyType({})) -> str:
    """The text without paths, hosts, times, sizes, process ids, ports and run ids; lines end without blanks."""
    text = screen.replace("\r\n", "\n").replace("\r", "\n")
    for pattern, stands in (*replace.items(), *_PLACES, *_PATTERNS):
        text = re.sub(pattern, stands, text)
    return "\n".join(line.rstrip() for line in text.strip("\n").split("\n")) + "\n"


def _places() -> tuple[tuple[str, str], ...]:
    """This machine's own names: temporary folders of tests, the interpreter, the repository, the host."""
    folders = rf"(?:{re.escape(os.environ.get('TMPDIR', '/tmp').rstrip('/'))}|/tmp|/dev/shm)"
    test = rf"{folders}/pytest-of-\w+/pytest-\d+/(?:popen-gw\d+/)?[^/\s:'\",)]+"
    other = rf"{folders}/(?:tmp|primus)[^/\s:'\",)]*"
    return (
        (test, "<TMP>"),
        (other, "<TMP>"),
        (re.escape(sys.prefix), "<PREFIX>"),
        (re.escape(str(REPOSITORY)), "<REPOSITORY>"),
        (rf"(?<![\w.-]){re.escape(socket.gethostname())}(?![\w-])", "<HOST>"),
    )


_PLACES = _places()
