"""Make the pictures of the explorer's scenes in Chromium: `make gallery` calls this file."""

import re
import shutil
import subprocess
import sys
from pathlib import Path

from PIL import Image
from playwright.sync_api import sync_playwright

from festina.explore.scenes import SCENES

GALLERY = Path(__file__).parent / "gallery"
WIDTH = 640  # pixels
_PATIENCE = 120_000  # milliseconds
_HIDDEN = ".save { display: none }"


def main() -> None:
    """Write `scene-NAME.png` with the plots of each scene at its default knobs."""
    command = [sys.executable, "-m", "festina", "explore", "--no-browser"]
    with (
        subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as server,
        sync_playwright() as started,
    ):
        assert server.stdout is not None
        address = re.search(r"http://\S+/", server.stdout.readline())
        assert address is not None
        path, flags = shutil.which("chromium"), ["--no-sandbox", "--disable-quic"]
        browser = started.chromium.launch(executable_path=path, args=flags)
        page = browser.new_page(viewport={"width": 1280, "height": 720}, bypass_csp=True)
        for each in SCENES if len(sys.argv) == 1 else [s for s in SCENES if s.name in sys.argv]:
            page.goto(f"{address[0]}scene/{each.name}")
            page.locator(".agreement:not(:empty)").wait_for(timeout=_PATIENCE)
            page.add_style_tag(content=_HIDDEN)
            page.wait_for_timeout(500)
            file = GALLERY / f"scene-{each.name}.png"
            page.locator(".plots").screenshot(path=file)
            with Image.open(file) as picture:
                small = picture.convert("RGB")
                small.thumbnail((WIDTH, WIDTH), Image.Resampling.LANCZOS)
                small.quantize(64, dither=Image.Dither.NONE).save(file, optimize=True)
        browser.close()
        server.terminate()


if __name__ == "__main__":
    main()
