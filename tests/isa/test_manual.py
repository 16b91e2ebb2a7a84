"""The generated manual."""

from pathlib import Path

from lathe.isa.manual import manual

PAGE = Path(__file__).parents[2] / "docs" / "isa.md"


def test_manual_in_docs_matches_the_table() -> None:
    assert PAGE.read_text(encoding="utf-8") == manual(), "run python -m lathe.isa.manual"


def test_manual_names_every_field_of_the_encoding() -> None:
    from lathe.configs.instructions import FORMATS

    text = manual()
    assert [field.name for form in FORMATS for field in form.fields if f"| {field.name} |" not in text] == []


def test_manual_describes_every_operation_and_extension() -> None:
    from lathe.configs.extensions import EXTENSIONS
    from lathe.isa import AluOp

    assert [each.name for each in AluOp if not each.result] == []
    assert [each for each in EXTENSIONS if f"- `{each}`: " not in manual()] == []


def test_assembly_example_of_the_manual_assembles() -> None:
    from lathe.configs import load_config
    from lathe.isa import assemble

    example = manual().split("## Assembly text")[1]
    assembly = assemble(load_config("vta"), example.split("```text\n")[1].split("```")[0])
    assert [each.opcode.name for each in assembly.instructions] == ["LOAD", "GEMM", "ALU", "STORE", "FINISH"]
    assert assembly.uops["main"].tolist() == [0]
