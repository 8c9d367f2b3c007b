"""`make gallery`: measure three investigations and keep their reports in docs/gallery/, with pictures of them.

They are the embedded example, a script of one's own with slow items, and the audit of a reported table. Reports are
kept with drawings alone, since the library of charts in each would be most of the repository. `--drawn` measures
nothing, and draws what is in outputs/gallery/.
"""

from __future__ import annotations

import argparse
import shutil
import subprocess
import sys
from pathlib import Path

from bench.own_scripts.__main__ import HERE as OWN
from bench.own_scripts.__main__ import planted
from bench.own_scripts.script import changed
from slowstep.environment.home import ROOT

OUTPUTS, GALLERY = ROOT / "outputs" / "gallery", ROOT / "docs" / "gallery"
KIT = [sys.executable, "-m", "slowstep.cli"]

PICTURES = {
    "index": ("index.html", "#slow_items", 1000),
    "index_phone": ("index.html", "#slow_items", 360),
    "quick": ("index.html", "#quick", 1000),
    "data_loading": ("slow_items/10_data_loading.html", "", 1000),
    "audit": ("case_000/95_reported_figures.html", "", 1000),
}
"""The pictures for README, each with its page, the part of it, and the width of the window. A whole page is cut off."""

HEIGHT = 900

NOW, WIDTHS, LONG = ROOT / "docs" / "pictures", (1280, 360), 1600
"""The folder of the index's pictures, beside those of its first version; their widths, and their height."""


def main(arguments: list[str]) -> int:
    """Measure, draw, copy, take the pictures."""
    parser = argparse.ArgumentParser(prog="python -m bench.gallery", description=__doc__.splitlines()[0])
    parser.add_argument("--drawn", action="store_true", help="measure nothing")
    if not parser.parse_args(arguments).drawn:
        measure()
    investigations = [p for p in sorted(OUTPUTS.iterdir()) if (p / "records").is_dir()]
    subprocess.run([*KIT, "report", "--static", *map(str, investigations)], check=True)
    shutil.rmtree(GALLERY, ignore_errors=True)
    for folder in investigations:
        pages = [*folder.glob("*.html"), *folder.glob("summary.*"), *(folder / "final").glob("*")]
        for page in filter(Path.is_file, pages):
            keep(page)
    keep(OUTPUTS / "index.html")
    photograph()
    return 0


def keep(page: Path) -> None:
    """Copy a page into the gallery. Places on this machine become places in a home folder."""
    kept = GALLERY / page.relative_to(OUTPUTS)
    kept.parent.mkdir(parents=True, exist_ok=True)
    text = page.read_text(encoding="utf-8")
    for place, kept_as in ((sys.prefix, "~/slowstep/.venv"), (ROOT, "~/slowstep"), (Path.home(), "~")):
        text = text.replace(str(place), kept_as)
    kept.write_text("\n".join(line.rstrip() for line in text.splitlines()) + "\n", encoding="utf-8")


def measure() -> None:
    """Diagnose the example and the script by their commands, and audit the table."""
    outputs = ["--outputs", str(OUTPUTS)]
    subprocess.run([*KIT, "diagnose", "params/quick.yaml", *outputs], cwd=ROOT, check=True)
    subprocess.run([*KIT, "audit", "params/case_000.yaml", *outputs], cwd=ROOT, check=True)
    ill, home = planted()["slow_items"], OUTPUTS / "project"
    home.mkdir(parents=True, exist_ok=True)
    text = (OWN / "scripts" / ill["script"]).read_text(encoding="utf-8")
    (home / "train.py").write_text(changed(text, ill["replace"]))
    diagnose = [*KIT, "diagnose", "--minutes", "4", "--name", "slow_items", *outputs]
    subprocess.run([*diagnose, "--", sys.executable, "train.py"], cwd=home, check=True)


def photograph() -> None:
    """Take a picture of each page in `PICTURES`, in a real browser."""
    from playwright.sync_api import sync_playwright

    chromium = shutil.which("chromium") or shutil.which("google-chrome")
    with sync_playwright() as playwright:
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        for name, (path, part, width) in PICTURES.items():
            page = browser.new_page(viewport={"width": width, "height": HEIGHT})
            page.goto((GALLERY / path).as_uri())
            target = page.locator(part) if part else page
            target.screenshot(path=str(GALLERY / f"{name}.png"))
            page.close()
        for width in WIDTHS:
            page = browser.new_page(viewport={"width": width, "height": LONG})
            page.goto((GALLERY / "index.html").as_uri() + "#quick")
            page.screenshot(path=str(NOW / f"index_after_{width}.png"))
            page.close()
        browser.close()


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
