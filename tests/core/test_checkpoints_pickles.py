"""Pickles are read without Python's unpickler: plain values come back, and nothing is ever executed."""

from __future__ import annotations

import collections
import pickle
import random
import struct
import time
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from primus_core.checkpoints.faults import Forbidden, Unreadable
from primus_core.checkpoints.pickles import Allowed, Global, Made, Stored, read_pickle
from tests.malice import Evil

NOTHING = Allowed(names=frozenset())
ORDERED = Allowed(names=frozenset({"collections.OrderedDict"}))

SCALARS = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text() | st.binary()
KEYS = st.text() | st.integers(-(2**59), 2**59) | st.tuples(st.text(), st.integers(0, 9))
VALUES = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(KEYS, inner, max_size=4)
        | st.tuples(inner, inner)
        | st.sets(st.text(), max_size=3)
        | st.frozensets(st.text(), max_size=3)
    ),
    max_leaves=12,
)


@given(value=VALUES, protocol=st.sampled_from([4, 5]))
@settings(max_examples=150, deadline=None)
def test_plain_values_come_back(value: Any, protocol: int) -> None:
    """What Python pickled from plain values is read as what Python itself would read."""
    assert read_pickle(pickle.dumps(value, protocol), NOTHING) == value


def test_the_protocol_that_torch_writes() -> None:
    """The second protocol, with references back, large containers and an ordered dictionary, comes back too."""
    shared = ["a", 1.5]
    value = {"list": [shared, shared], "many": {f"k{n}": n - 500 for n in range(3000)}, "t": (1, (2, 3, 4, 5), ())}
    assert read_pickle(pickle.dumps(value, 2), NOTHING) == value
    assert read_pickle(pickle.dumps(collections.OrderedDict(a=1, b=2), 2), ORDERED) == {"a": 1, "b": 2}


def test_what_would_be_imported_is_only_named() -> None:
    """An allowed class is a name, an instance of it its arguments and attributes: no code of it has run."""
    allowed = Allowed(names=frozenset({"pathlib.PosixPath", "pathlib.PurePosixPath"}), classes_of=("argparse",))
    made = read_pickle(pickle.dumps(Path("/a/b"), 2), allowed)
    assert isinstance(made, Made)
    assert (made.name, made.arguments) == ("pathlib.PosixPath", ("/", "a", "b"))
    import argparse

    namespace = read_pickle(pickle.dumps(argparse.Namespace(lr=0.1), 4), allowed)
    assert (namespace.name, namespace.attributes()) == ("argparse.Namespace", {"lr": 0.1})
    assert read_pickle(b"\x80\x02cargparse\nNamespace\n.", allowed) == Global("argparse.Namespace")
    assert isinstance(read_pickle(b"\x80\x02K\x07Q.", allowed), Stored)


def text(value: str) -> bytes:
    return b"X" + struct.pack("<I", len(value)) + value.encode()


def attacks(canary: Path) -> dict[str, tuple[bytes, str]]:
    """Pickles that run code in Python's own unpickler, with the name that gives each away."""
    inner = text(f"touch {canary}")
    return {
        "reduce, newest": (pickle.dumps(Evil(canary), 5), "posix.system"),
        "reduce, second": (pickle.dumps(Evil(canary), 2), "posix.system"),
        "by hand, first protocol": (b"cos\nsystem\n(" + inner + b"tR.", "os.system"),
        "stack global": (b"\x80\x04" + text("os") + text("system") + b"\x93" + inner + b"\x85R.", "os.system"),
        "eval": (b"\x80\x02cbuiltins\neval\n" + inner + b"\x85R.", "builtins.eval"),
        "getattr of an allowed module": (b"\x80\x02cbuiltins\ngetattr\n.", "builtins.getattr"),
        "new object": (b"\x80\x02csubprocess\nPopen\n" + inner + b"\x85\x81.", "subprocess.Popen"),
        "within a dictionary": (b"\x80\x02}" + text("model") + b"cos\nsystem\n" + inner + b"\x85Rs.", "os.system"),
        "dotted name": (
            b"\x80\x04" + text("collections") + text("abc.os.system") + b"\x93.",
            "collections.abc.os.system",
        ),
        "like an allowed one": (b"\x80\x02ctorch\nload\n.", "torch.load"),
        "a function of an allowed package": (b"\x80\x02cmegatron.core\nrun\n.", "megatron.core.run"),
        "a package that begins alike": (b"\x80\x02cmegatronx\nEvil\n.", "megatronx.Evil"),
    }


@pytest.mark.parametrize("name", attacks(Path("/")))
def test_a_malicious_pickle_runs_nothing(name: str, tmp_path: Path) -> None:
    """The error tells the name that it would have called; the command that it holds has not run."""
    canary = tmp_path / "canary"
    data, names = attacks(canary)[name]
    allowed = Allowed(names=frozenset({"torch.float32", "collections.OrderedDict"}), classes_of=("megatron",))
    with pytest.raises(Forbidden) as caught:
        read_pickle(data, allowed)
    assert caught.value.name == names
    assert not canary.exists()


def test_the_attacks_are_real(tmp_path: Path) -> None:
    """Python's own unpickler runs what the cases hold: else the test above could not fail."""
    pickle.loads(attacks(tmp_path / "canary")["stack global"][0])
    assert (tmp_path / "canary").exists()


def test_a_name_cannot_write_to_the_terminal() -> None:
    """Control characters of a name are not repeated, and a long one is cut."""
    with pytest.raises(Forbidden) as caught:
        read_pickle(b"\x80\x04" + text("os\x1b[2J") + text("x" * 5000) + b"\x93.", NOTHING)
    assert caught.value.name.startswith("os?[2J.xxx")
    assert len(str(caught.value)) < 250


BOMBS = {
    "a text of four exabytes": b"\x80\x04\x8d" + struct.pack("<Q", 1 << 62) + b"x.",
    "a place far beyond the memory": b"\x80\x02Nr\xff\xff\xff\xffj\xfe\xff\xff\xff.",
    "a key of 300,000 tuples": b"\x80\x02}" + b")" + b"\x85" * 300_000 + b"Ns.",
    "a set of 300,000 sets": b"\x80\x04(" + b")" + b"\x85" * 300_000 + b"\x91.",
    "open containers": b"\x80\x02" + b"(" * 10_000 + b".",
    "two million lists": b"\x80\x04(" + b"]" * 2_100_000 + b"t.",
    "keys that collide": b"\x80\x02}("
    + b"".join(b"\x8a\x09" + (n * (2**61 - 1)).to_bytes(9, "little") + b"N" for n in range(9))
    + b"u.",
    "an instruction of another age": b"(S'a'\nl.",
    "an instruction that calls by name": b"(ios\nsystem\n.",
    "an extension": b"\x80\x02\x82\x01.",
    "nothing": b"",
    "cut short": pickle.dumps({"a": list(range(1000))})[:-40],
    "no pickle": b"PK\x03\x04 not a pickle",
    "an unhashable key": b"\x80\x02}]Ns.",
    "a call of a text": b"\x80\x02" + text("os.system") + b")R.",
    "items of a number": b"\x80\x02K\x01(K\x02K\x03u.",
}


@pytest.mark.parametrize("name", BOMBS)
def test_hostile_sizes_and_shapes_end_soon(name: str) -> None:
    """Neither memory, nor recursion, nor time is at the file's command."""
    begun = time.process_time()
    with pytest.raises(Unreadable):
        read_pickle(BOMBS[name], NOTHING)
    assert time.process_time() - begun < 5


def test_damaged_pickles_give_an_error_or_a_value() -> None:
    """2,000 random damages of a pickle: never another exception, and never a name that is not allowed."""
    whole = pickle.dumps({"args": {"lr": 0.1, "names": ["a", "b"] * 9}, "shape": (1, 2, 3)}, 2)
    random_numbers = random.Random(7)
    outcomes = {"error": 0, "value": 0}
    for _ in range(2000):
        damaged = bytearray(whole)
        for _ in range(random_numbers.randint(1, 4)):
            damaged[random_numbers.randrange(len(damaged))] = random_numbers.randrange(256)
        try:
            read_pickle(bytes(damaged), NOTHING)
            outcomes["value"] += 1
        except Unreadable:
            outcomes["error"] += 1
    assert min(outcomes.values()) > 50
