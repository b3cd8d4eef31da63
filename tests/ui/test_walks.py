"""The pictures of the how-to pages are there, and small."""

from tests.ui.walks import PAGES, PICTURES, steps_of

MAX_BYTES = 60_000


def test_pictures_of_the_pages_are_small() -> None:
    """Those that the pages show, and no others."""
    shown = [step["picture"] for page in PAGES.glob("*.md") for step in steps_of(page.stem) if step["picture"]]
    assert sorted(shown) == sorted(file.name for file in PICTURES.iterdir())
    assert {name: size for name in shown if (size := (PICTURES / name).stat().st_size) > MAX_BYTES} == {}
