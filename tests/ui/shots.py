"""The dashboard's pictures in docs/images, made again: `python -m tests.ui.shots LAKE [FOLDER]`.

LAKE is one of `tests.ui.generated`. That pages look right in each look, and that nothing is wider than its window, is
what test_browser.py sees to.
"""

import json
import shutil
import sys
import tempfile
from pathlib import Path

from sexton.settings import PROJECT_ROOT
from tests.ui import chromium
from tests.ui.lake_server import get, serving

SHOTS = {"dashboard-overview": ("/", "light", 1280), "dashboard-group-dark": ("/group?id={group}", "dark", 1280)}


def main(lake: Path, folder: Path) -> int:
    with serving(lake) as (base, _):
        found = json.loads(get(f"{base}/api/groups?sort=due&only=due&size=1"))
        group = found["rows"][0]["group_id"]
        for name, (path, theme, width) in SHOTS.items():
            with tempfile.TemporaryDirectory() as out:
                page = {"name": name, "url": base + path.format(group=group), "steps": [{"wait": 1500}]}
                looked = {"pages": [page], "looks": [(width, theme)], "fullPage": False}
                chromium.run_script("check.mjs", Path(out), **looked)
                shutil.copy(Path(out) / f"{name}-{width}-{theme}.png", folder / f"{name}.png")
    return 0


if __name__ == "__main__":
    if len(sys.argv) < 2:
        sys.exit(__doc__)
    sys.exit(main(Path(sys.argv[1]), Path(sys.argv[2]) if len(sys.argv) > 2 else PROJECT_ROOT / "docs" / "images"))
