"""Reads a pickle without Python's own unpickler: nothing is imported, called or executed, whatever the file says.

What a pickle would import becomes a `Global`, what it would construct a `Made`: inert values that only tell the name
and the arguments. A name that is not on the caller's list ends the reading. So do an instruction that no checkpoint
needs, a file that is longer or deeper than the limits, and one that is cut short.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Mapping
from typing import Any

from attrs import define, field, frozen

from primus_core.checkpoints.faults import Forbidden, Unreadable

_KEY_DEPTH = 8
"""Tuples within tuples in a key; Python hashes them by recursion, and a deep one would end the process."""
_KEY_SIZE = 1 << 60
"""Whole numbers beyond may have equal hashes, and a million of them as keys would take for ever."""
_DEPTH = 64
"""Open containers at one time."""
_OBJECTS = 2_000_000
"""Containers and objects of one file; a byte of the file may ask for 200 bytes of memory."""


@frozen
class Global:
    """Something that the pickle names: ``torch.float32``."""

    name: str


@define(eq=False)
class Made:
    """An object that the pickle would construct: what by, with which arguments, and the state set afterwards."""

    name: str
    arguments: tuple[Any, ...] = ()
    state: Any = None

    def attributes(self) -> Mapping[str, Any]:
        """The attributes that were set on it, by name."""
        return self.state if isinstance(self.state, dict) else {}


@frozen(eq=False)
class Stored:
    """A value that is kept elsewhere in the file, such as the numbers of a tensor."""

    id: Any


@frozen(kw_only=True)
class Allowed:
    """The names that a pickle may use."""

    names: frozenset[str]
    classes_of: tuple[str, ...] = ()
    """Packages any of whose classes (capitalized names) may be named, such as a library's enumerations."""

    def __contains__(self, name: str) -> bool:
        package, _, last = name.rpartition(".")
        return name in self.names or (
            last[:1].isupper() and any(package == own or package.startswith(f"{own}.") for own in self.classes_of)
        )


def read_pickle(data: bytes, allowed: Allowed) -> Any:
    """The value of a pickle, of dicts, lists, tuples, sets and scalars, `Global`, `Made` and `Stored`.

    Raises:
        Forbidden: it names something that is not allowed.
        Unreadable: it is no pickle, cut short, too deep, or uses an instruction that checkpoints do not need.
    """
    try:
        return _Reader(data, allowed).value()
    except (IndexError, KeyError, TypeError, ValueError, AttributeError, struct.error, OverflowError) as error:
        raise Unreadable(f"not a sound pickle ({type(error).__name__}: {error})") from None


@define
class _Reader:
    """A stack machine: one method for each instruction, by its byte."""

    data: bytes
    allowed: Allowed
    at: int = 0
    stack: list[Any] = field(factory=list)
    marks: list[int] = field(factory=list)
    memo: dict[int, Any] = field(factory=dict)
    objects: int = 0

    def value(self) -> Any:
        data, table = self.data, _INSTRUCTIONS
        while True:
            code = data[self.at]
            self.at += 1
            if code == _STOP:
                return self.stack.pop()
            instruction = table.get(code)
            if instruction is None:
                raise Unreadable(f"instruction 0x{code:02x} at byte {self.at - 1} has no place in a checkpoint")
            instruction(self)

    def take(self, size: int) -> bytes:
        """The next bytes of the file."""
        end = self.at + size
        if size < 0 or end > len(self.data):
            raise Unreadable(f"cut short: {size:,} bytes are announced at byte {self.at:,} of {len(self.data):,}")
        taken = self.data[self.at : end]
        self.at = end
        return taken

    def byte(self) -> int:
        """The next byte as a number; `number` of one, which is most of what a pickle has."""
        value = self.data[self.at]
        self.at += 1
        return value

    def number(self, size: int, *, signed: bool = False) -> int:
        return int.from_bytes(self.take(size), "little", signed=signed)

    def line(self) -> str:
        end = self.data.index(b"\n", self.at)
        text = self.data[self.at : end].decode("utf-8")
        self.at = end + 1
        return text

    def push(self, value: Any) -> None:
        self.stack.append(value)

    def push_new(self, value: Any) -> None:
        self.objects += 1
        if self.objects > _OBJECTS:
            raise Unreadable(f"more than {_OBJECTS:,} objects")
        self.stack.append(value)

    def since_mark(self) -> list[Any]:
        start = self.marks.pop()
        items = self.stack[start:]
        del self.stack[start:]
        return items

    def mark(self) -> None:
        if len(self.marks) >= _DEPTH:
            raise Unreadable(f"more than {_DEPTH} containers within each other")
        self.marks.append(len(self.stack))

    def name(self, module: Any, name: Any) -> None:
        if not isinstance(module, str) or not isinstance(name, str):
            raise Unreadable("it names something by no text")
        full = f"{module}.{name}"
        if full not in self.allowed:
            raise Forbidden(full)
        self.push(Global(full))

    def construct(self, callee: Any, arguments: Any) -> None:
        if not isinstance(callee, Global) or not isinstance(arguments, tuple):
            raise Unreadable("it calls something that it does not name")
        ordered = callee.name == "collections.OrderedDict"
        self.push_new(_pairs(*arguments) if ordered else Made(callee.name, arguments))

    def build(self) -> None:
        state, target = self.stack.pop(), self.stack[-1]
        if isinstance(target, Made):
            target.state = state

    def set_items(self, items: list[Any]) -> None:
        target = self.stack[-1]
        if isinstance(target, Made):
            return  # a container of a class of its own: its items tell nothing here
        if not isinstance(target, dict):
            raise Unreadable("it sets items of something that has none")
        target.update((_key(key), value) for key, value in zip(items[::2], items[1::2], strict=True))

    def append(self, items: list[Any]) -> None:
        target = self.stack[-1]
        if isinstance(target, Made):
            return
        if not isinstance(target, list):
            raise Unreadable("it appends to something that is no list")
        target.extend(items)

    def add(self) -> None:
        items, target = self.since_mark(), self.stack[-1]
        if not isinstance(target, set):
            raise Unreadable("it adds to something that is no set")
        target.update(map(_key, items))

    def tuple(self, size: int) -> None:
        items = tuple(self.stack[len(self.stack) - size :]) if size else ()
        del self.stack[len(self.stack) - size :]
        self.push_new(items)

    def pop(self) -> Any:
        return self.stack.pop()

    def remember(self, index: int) -> None:
        self.memo[index] = self.stack[-1]


def _pairs(items: Any = ()) -> dict[Any, Any]:
    return {_key(key): value for key, value in items}


def _key(value: Any, depth: int = _KEY_DEPTH) -> Any:
    """A value that may be a key; a deep or ambiguous one is refused before Python hashes it."""
    if isinstance(value, (int, float)) and (isinstance(value, float) or abs(value) >= _KEY_SIZE):
        raise Unreadable("a key that is no text and no small number")
    if isinstance(value, (tuple, frozenset)):
        if not depth:
            raise Unreadable(f"a key of more than {_KEY_DEPTH} tuples within each other")
        for item in value:
            _key(item, depth - 1)
    return value


def _two(reader: _Reader, use: Callable[[Any, Any], None]) -> None:
    second, first = reader.pop(), reader.pop()
    use(first, second)


_STOP = ord(".")
_INSTRUCTIONS: Mapping[int, Callable[[_Reader], Any]] = {
    code[0]: run
    for code, run in {
        b"\x80": lambda r: r.take(1),  # protocol
        b"\x95": lambda r: r.take(8),  # frame
        b"(": lambda r: r.mark(),
        b"0": lambda r: r.pop(),
        b"1": lambda r: r.since_mark(),
        b"2": lambda r: r.push(r.stack[-1]),
        b"N": lambda r: r.push(None),
        b"\x88": lambda r: r.push(True),
        b"\x89": lambda r: r.push(False),
        b"J": lambda r: r.push(r.number(4, signed=True)),
        b"K": lambda r: r.stack.append(r.byte()),
        b"M": lambda r: r.push(r.number(2)),
        b"\x8a": lambda r: r.push(r.number(r.byte(), signed=True)),
        b"\x8b": lambda r: r.push(r.number(r.number(4), signed=True)),
        b"G": lambda r: r.push(struct.unpack(">d", r.take(8))[0]),
        b"\x8c": lambda r: r.push(r.take(r.byte()).decode("utf-8", "surrogatepass")),
        b"X": lambda r: r.push(r.take(r.number(4)).decode("utf-8", "surrogatepass")),
        b"\x8d": lambda r: r.push(r.take(r.number(8)).decode("utf-8", "surrogatepass")),
        b"C": lambda r: r.push(r.take(r.byte())),
        b"B": lambda r: r.push(r.take(r.number(4))),
        b"\x8e": lambda r: r.push(r.take(r.number(8))),
        b"U": lambda r: r.push(r.take(r.byte()).decode("latin-1")),
        b"T": lambda r: r.push(r.take(r.number(4)).decode("latin-1")),
        b")": lambda r: r.push(()),
        b"t": lambda r: r.push_new(tuple(r.since_mark())),
        b"\x85": lambda r: r.tuple(1),
        b"\x86": lambda r: r.tuple(2),
        b"\x87": lambda r: r.tuple(3),
        b"]": lambda r: r.push_new([]),
        b"l": lambda r: r.push_new(r.since_mark()),
        b"a": lambda r: r.append([r.pop()]),
        b"e": lambda r: r.append(r.since_mark()),
        b"}": lambda r: r.push_new({}),
        b"s": lambda r: _two(r, lambda key, value: r.set_items([key, value])),
        b"u": lambda r: r.set_items(r.since_mark()),
        b"\x8f": lambda r: r.push_new(set()),
        b"\x90": lambda r: r.add(),
        b"\x91": lambda r: r.push_new(frozenset(map(_key, r.since_mark()))),
        b"q": lambda r: r.remember(r.byte()),
        b"r": lambda r: r.remember(r.number(4)),
        b"\x94": lambda r: r.memo.__setitem__(len(r.memo), r.stack[-1]),
        b"h": lambda r: r.stack.append(r.memo[r.byte()]),
        b"j": lambda r: r.push(r.memo[r.number(4)]),
        b"c": lambda r: r.name(r.line(), r.line()),
        b"\x93": lambda r: _two(r, r.name),
        b"R": lambda r: _two(r, r.construct),
        b"\x81": lambda r: _two(r, r.construct),
        b"b": lambda r: r.build(),
        b"Q": lambda r: r.push(Stored(r.pop())),
    }.items()
}
"""By the byte of the pickle format; what is missing is refused."""
