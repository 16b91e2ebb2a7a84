"""The index of decisions: complete, up to date, and built from well-formed pages."""

import gen_decision_index as index
import pytest

PAGES = sorted(index.DECISIONS.glob("[0-9]*.md"))


def test_the_index_is_up_to_date():
    assert index.INDEX.read_text(encoding="utf-8") == index.page(), "run `python docs/gen_decision_index.py`"


def test_numbers_are_unique_and_superseding_decisions_exist():
    decisions = [index.decision_of(path) for path in PAGES]
    numbers = [each.number for each in decisions]
    assert len(set(numbers)) == len(numbers)
    superseding = {each.status.split()[-1] for each in decisions if each.status != "accepted"}
    assert superseding <= set(numbers)


@pytest.mark.parametrize("missing", ["# 001. ", "Status: accepted\n", "Area: ISA\n"])
def test_a_page_without_its_head_is_refused(missing, tmp_path):
    path = tmp_path / "001-name.md"
    path.write_text("# 001. Title\n\nStatus: accepted\nArea: ISA\n\nText.\n")
    assert index.decision_of(path) == ("001-name.md", "001", "Title", "accepted", "ISA")
    path.write_text(path.read_text().replace(missing, ""))
    with pytest.raises(ValueError, match=r"001-name\.md must start with"):
        index.decision_of(path)
