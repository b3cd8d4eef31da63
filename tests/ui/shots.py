"""The dashboard's pictures in docs/images, made again: `python -m tests.ui.shots LAKE [FOLDER]`.

LAKE is one of `tests.ui.generated`. With `--lost` the pictures are those of docs/how-to/last-month.md, of the var/ in
which the archive of `tests.ui.month` became a history. That pages look right in each admin snapshot, and that nothing
is wider than its window, is what test_browser.py sees to."""

import json
import shutil
import sys
import tempfile
from pathlib import Path

from sexton.settings import PROJECT_ROOT
from tests.ui import chromium
from tests.ui.lake_server import get, serving

SHOTS = {"dashboard-overview": ("/", "light", 1280), "dashboard-group-dark": ("/group?id={group}", "dark", 1280)}
LOST = {"lost-offsets": ("/lost", "light", 1280), "lost-offsets-phone": ("/lost", "light", 390)}


def main(lake: Path, folder: Path, shots: dict[str, tuple[str, str, int]]) -> int:
    with serving(lake) as (base, _):
        found = json.loads(get(f"{base}/api/groups?sort=due&size=1"))
        group = found["rows"][0]["group_id"]
        for name, (path, theme, width) in shots.items():
            with tempfile.TemporaryDirectory() as out:
                page = {"name": name, "url": base + path.format(group=group), "steps": [{"wait": 1500}]}
                looked = {"pages": [page], "looks": [(width, theme)], "fullPage": False}
                chromium.run_script("check.mjs", Path(out), **looked)
                shutil.copy(Path(out) / f"{name}-{width}-{theme}.png", folder / f"{name}.png")
    return 0


if __name__ == "__main__":
    arguments = [word for word in sys.argv[1:] if word != "--lost"]
    if not arguments:
        sys.exit(__doc__)
    images = Path(arguments[1]) if len(arguments) > 1 else PROJECT_ROOT / "docs" / "images"
    sys.exit(main(Path(arguments[0]), images, LOST if "--lost" in sys.argv else SHOTS))
