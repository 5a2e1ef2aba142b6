"""The Chinese pages keep step: what they tell to type is typed in English too, and no name is lost."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parent.parent
PAGES = [ROOT / "README.zh-CN.md", *sorted((ROOT / "docs/zh").glob("*.md"))]
ENGLISH = "".join(
    path.read_text("utf-8") for path in (ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md")))
)


def blocks(text: str) -> list[str]:
    return re.findall(r"```sh\n(.*?)```", text, flags=re.DOTALL)


def words(line: str) -> list[str]:
    """The command with its options: what an example says in either language may differ."""
    plain = re.sub(r"'[^']*'|\"[^\"]*\"", "", line.split(" #")[0])
    return [word.removeprefix(".venv/bin/") for word in plain.split() if re.match(r"[-.\w/]+$", word)]


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.name)
def test_every_command_is_in_the_english_pages(page: Path) -> None:
    known = {word for block in blocks(ENGLISH) for line in block.splitlines() for word in words(line)}
    for block in blocks(page.read_text("utf-8")):
        for line in block.splitlines():
            assert set(words(line)) <= known, line


@pytest.mark.parametrize("page", PAGES, ids=lambda path: path.name)
def test_links_lead_somewhere_and_settings_are_named_in_english_too(page: Path) -> None:
    text = page.read_text("utf-8")
    for target in re.findall(r"\]\(([^)#]+)", text):
        assert (page.parent / target).exists(), target
    assert set(re.findall(r"FIRSTWORD_[A-Z_]*[A-Z]", text)) <= set(
        re.findall(r"FIRSTWORD_[A-Z_]*[A-Z]", ENGLISH)
    )


def test_table_of_names_has_the_rows_of_the_english_one() -> None:
    def names(path: Path) -> set[str]:
        rows = re.findall(r"^\| (`.*?) \|", path.read_text("utf-8"), flags=re.MULTILINE)
        return {name for row in rows for name in re.findall(r"`([a-z_]\w+)", row)}

    english, chinese = names(ROOT / "docs/from-cosyvoice.md"), names(ROOT / "docs/zh/from-cosyvoice.md")
    assert chinese <= english
    left_out = {"text_frontend", "save_spkinfo", "source_cache_len", "speed", "webui", "runtime"}
    assert english - chinese <= left_out, "say it in Chinese too"
    headings = [
        re.findall(r"^## ", path.read_text("utf-8"), flags=re.MULTILINE)
        for path in (ROOT / "docs/from-cosyvoice.md", ROOT / "docs/zh/from-cosyvoice.md")
    ]
    assert len(headings[0]) == len(headings[1])
