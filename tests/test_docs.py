"""The pages: their links lead somewhere, and every step has its row and its chapter."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]


def anchors(page):
    """The anchors of a page's headings, as GitHub makes them."""
    heads = re.findall(r"^#+ (.*)$", page.read_text(encoding="utf-8"), re.MULTILINE)
    return {re.sub(r"[^\w\- ]", "", head.lower()).replace(" ", "-") for head in heads}


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.name)
def test_links_lead_somewhere(page):
    for link in re.findall(r"\]\(([^)\s]+)\)", page.read_text(encoding="utf-8")):
        if link.startswith(("https://", "http://")):
            continue
        path, _, anchor = link.partition("#")
        target = (page.parent / path).resolve() if path else page
        if "checkpoints" in link and not target.exists():
            continue  # before the model was trained
        assert target.exists(), link
        assert not anchor or anchor in anchors(target), link


def test_every_page_is_linked_from_the_home_page():
    home = (ROOT / "docs" / "index.md").read_text(encoding="utf-8")
    for page in PAGES[1:]:
        assert page.name == "index.md" or f"({page.name})" in home


def test_every_step_has_its_row_and_its_chapter():
    rows = re.findall(r"^\| (\d\d\.\d+) \|", (ROOT / "docs" / "episodes.md").read_text("utf-8"),
                      re.MULTILINE)  # fmt: skip
    chapters = re.findall(r"^## (\d\d\.\d+) ", "".join(p.read_text("utf-8") for p in PAGES),
                          re.MULTILINE)  # fmt: skip
    assert sorted(chapters) == sorted(row for row in rows if not row.startswith("00"))
    assert len(set(rows)) == len(rows)


def test_no_path_of_a_machine():
    for page in PAGES:
        assert not re.search(r"(?<![\w.])/(home|root|work|Users)/", page.read_text("utf-8")), page
