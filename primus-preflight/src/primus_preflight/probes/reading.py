"""Small files of the kernel, which may be missing, closed or odd."""

from __future__ import annotations

from pathlib import Path


def text(path: Path) -> str:
    """Without blanks around; empty where it cannot be read, as some files of drivers cannot although they are there."""
    try:
        return path.read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""


def number(path: Path) -> int | None:
    """None where it is no whole number."""
    return whole(text(path))


def whole(word: str) -> int | None:
    """The number that a text is; None where it is none, such as ``N/A`` or ``max``."""
    try:
        return int(word)
    except ValueError:
        return None


def leading(word: object) -> float | None:
    """The number that a text begins with: 32.0 of ``32.0 GT/s PCIe``, None of ``Unknown``."""
    first = str(word).split(" ")[0].rstrip("x%")
    try:
        return float(first)
    except ValueError:
        return None


def table(path: Path, separator: str = ":") -> dict[str, str]:
    """Lines ``name: value``; of a name that comes again the first."""
    found: dict[str, str] = {}
    for line in text(path).splitlines():
        name, _, value = line.partition(separator)
        found.setdefault(name.strip(), value.strip())
    return found


def name_of_link(path: Path) -> str:
    """The last part of where a symbolic link leads; empty where it is none."""
    try:
        return path.readlink().name
    except OSError:
        return ""
