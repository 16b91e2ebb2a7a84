"""The tables of ``docs/rtl.md``, registers and fault codes: ``python -m lathe.hardware_manual`` renews them."""

from collections.abc import Iterable
from pathlib import Path

from lathe.configs.atomic import write_text
from lathe.rtl.fault import MEANINGS
from lathe.rtl.registers import REGISTERS

END = "<!-- end -->"
PAGE = Path(__file__).resolve().parents[1] / "docs" / "rtl.md"


def registers() -> str:
    """The register map."""
    rows = [[f"{each.address:#05x}", each.name, each.access, each.what] for each in REGISTERS]
    return _table(["address", "register", "access", "content"], rows)


def fault_codes() -> str:
    """What the fault field of STATUS tells."""
    return _table(["code", "fault", "cause"], [[str(int(code)), code.name, what] for code, what in MEANINGS.items()])


SECTIONS = {"registers": registers, "fault codes": fault_codes}


def renewed(page: str) -> str:
    """A page with each table between its marks, ``<!-- NAME, generated -->`` and ``<!-- end -->``, as it should be."""
    for name, section in SECTIONS.items():
        mark = f"<!-- {name}, generated -->\n"
        before, found, rest = page.partition(mark)
        _, end, after = rest.partition(END)
        assert found, f"the page must have {mark.strip()!r}"
        assert end, f"the page must have {END!r} after {mark.strip()!r}"
        page = f"{before}{mark}\n{section()}\n{END}{after}"
    return page


def _table(columns: list[str], rows: Iterable[list[str]]) -> str:
    lines = [columns, ["---"] * len(columns), *rows]
    return "".join(f"| {' | '.join(line)} |\n" for line in lines)


if __name__ == "__main__":
    write_text(PAGE, renewed(PAGE.read_text(encoding="utf-8")))
