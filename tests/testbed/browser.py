"""What a person sees of a page: headless Chromium opens it, and tells sizes, words and errors."""

from __future__ import annotations

import json
import re
import shutil
import subprocess
from collections.abc import Mapping
from html import unescape
from pathlib import Path

from primus_core.codec import from_json
from primus_core.records import frozen

SECONDS = 120
_ERROR = re.compile(r"CONSOLE|Uncaught|Refused to", re.IGNORECASE)
_SEEN = re.compile(r'<script id="seen" type="application/json">(.*?)</script>', re.DOTALL)
_LOOK = """<script>
const box = one => one.getBoundingClientRect()
const cut = (label, edge) => box(label).width && (box(label).left < edge.left - 1 || box(label).right > edge.right + 1
  || box(label).top < edge.top - 1 || box(label).bottom > edge.bottom + 1)
const style = getComputedStyle(document.body)
const seen = {
  text: document.body.innerText, ink: style.color, ground: style.backgroundColor,
  wider: document.documentElement.scrollWidth - document.documentElement.clientWidth,
  charts: [...document.querySelectorAll("svg")].map(one => ({
    width: box(one).width, height: box(one).height, shapes: one.children.length,
    cut: [...one.querySelectorAll("text")].filter(label => cut(label, box(one))).map(label => label.textContent),
  })),
}
const told = document.createElement("script")
Object.assign(told, {id: "seen", type: "application/json", textContent: JSON.stringify(seen)})
document.body.append(told)
</script>"""


def lacking() -> str:
    """Why no page can be opened here; empty where it can."""
    return "" if shutil.which("chromium") else "not installed: chromium"


@frozen(kw_only=True)
class Chart:
    """A drawing as it is laid out; its size in pixels."""

    width: float
    height: float
    shapes: int
    cut: tuple[str, ...]
    """Labels of which a part is outside."""


@frozen(kw_only=True)
class Seen:
    """One page."""

    text: str
    """All that is visible."""
    ink: str
    ground: str
    wider: float
    """Pixels by which the page is wider than the window."""
    charts: tuple[Chart, ...]
    errors: tuple[str, ...] = ()
    """What the browser complained of."""


def opened(page: Path, folder: Path, *, width: int = 1200, dark: bool = False) -> Seen:
    """Open a page in a window of some width, on a reader's screen that is dark or not."""
    copy = folder / f"seen-{page.name}"
    copy.write_text(page.read_text(encoding="utf-8").replace("</body>", f"{_LOOK}</body>"), encoding="utf-8")
    flags = ["--headless", "--no-sandbox", "--disable-gpu", f"--user-data-dir={folder / 'chromium'}"]
    flags += [f"--window-size={width},900", f"--blink-settings=preferredColorScheme={int(not dark)}"]
    command = ["chromium", *flags, "--enable-logging=stderr", "--dump-dom", f"file://{copy}"]
    done = subprocess.run(command, capture_output=True, text=True, timeout=SECONDS, check=True)
    found = _SEEN.search(done.stdout)
    assert found, done.stderr
    seen: Mapping[str, object] = json.loads(unescape(found[1]))
    errors = [line for line in done.stderr.splitlines() if _ERROR.search(line)]
    return from_json(Seen, json.dumps({**seen, "errors": errors}))
