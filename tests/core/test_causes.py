"""The table of known causes: each row is for a text that libraries really print."""

from __future__ import annotations

import pytest

from primus_core.report.causes import KnownCause, cause_of, known_causes

KINDS = {
    *("memory", "nan", "data", "tokenizer", "collective", "network", "port", "disk"),
    *("permission", "library", "accelerator", "limit"),
}


@pytest.mark.parametrize("cause", known_causes(), ids=lambda cause: cause.id)
def test_each_row_knows_its_sample(cause: KnownCause) -> None:
    """No earlier row takes a row's sample for its own; cause and remedy are there, in words of ours."""
    hit = cause_of([cause.sample])
    assert hit is not None
    assert hit[0].id == cause.id
    assert cause.kind in KINDS
    assert cause.remedy
    assert len(cause.what) < 100


@pytest.mark.parametrize(
    ("line", "known"),
    [
        ("RuntimeError: HIP out of memory. Tried to allocate 20.00 MiB", "device-memory"),
        ("MemoryError", "host-memory"),
        ("RuntimeError: found an infinite local forward loss", "nan-loss"),
        ("RuntimeError: Loss is not finite (global_avg_loss=nan) at step 3. Stopping training.", "nan-loss"),
        ("ValueError: buffer is smaller than requested size", "data-cut-short"),
        ("DistStoreError: Timed out after 2 seconds waiting for clients. 1/2 clients joined.", "collective-timeout"),
        ("RuntimeError: [enforce fail at inline_container.cc:672] . unexpected pos 704 vs 598", "disk-full"),
        ("OSError: [Errno 30] Read-only file system: '/w'", "read-only"),
        ("/usr/bin/python: No module named torch.distributed", "missing-module"),
    ],
)
def test_other_wordings_are_known_too(line: str, known: str) -> None:
    """The same cause in the words of another library or accelerator."""
    hit = cause_of([line])
    assert hit is not None
    assert hit[0].id == known


@pytest.mark.parametrize(
    "line", ["ValueError: the loss is gone", "KeyError: 'tokens'", "TypeError: unsupported operand", "iteration 28", ""]
)
def test_other_failures_are_not_explained(line: str) -> None:
    """A cause that is not known is not made up."""
    assert cause_of([line]) is None


def test_the_earliest_line_counts() -> None:
    """Of several exceptions the nearest one that is known is told, with its own text."""
    hit = cause_of(["RuntimeError: save failed", "OSError: [Errno 28] full", "PermissionError: [Errno 13]"])
    assert hit is not None
    assert (hit[0].id, hit[1]) == ("disk-full", "OSError: [Errno 28] full")
