"""Mutation score of the default tests: the share of faults in randomly drawn functions that make a test fail.

    python benchmarks/mutation_score.py [--seed 0] [--faults 60] [--plan FILE] [--checkout DIR] [--json]

A fault changes one operator, constant or condition of one function. First all tests run once, on a copy of the checkout
whose drawn functions record which tests enter them, also in subprocesses. Then each fault is planted alone in that
copy, and the tests that reach its function run until one fails. A fault that no test reaches is not killed. ``--json``
prints a row per fault with `file`, `function`, `site` (the index of the changed expression), `change`, `reached`
(number of tests), `killed` and `by` (the first failing test); such rows are input of ``--plan``, which runs the same
faults against other tests, for example those of ``--checkout``.
"""

import argparse
import ast
import json
import os
import random
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import asdict, dataclass
from itertools import accumulate
from pathlib import Path

ROOT = Path(__file__).parents[1]
PACKAGES = ("configs", "isa", "frontend", "scheduler", "sim", "rtl", "lathe")
MINUTES = 30  # timeout of a run of tests, after which the fault counts as killed

SWAPPED = {
    ast.Lt: ast.LtE, ast.LtE: ast.Lt, ast.Gt: ast.GtE, ast.GtE: ast.Gt, ast.Eq: ast.NotEq, ast.NotEq: ast.Eq,
    ast.Is: ast.IsNot, ast.IsNot: ast.Is, ast.In: ast.NotIn, ast.NotIn: ast.In, ast.Add: ast.Sub, ast.Sub: ast.Add,
    ast.Mult: ast.Add, ast.FloorDiv: ast.Mult, ast.Mod: ast.FloorDiv, ast.LShift: ast.RShift, ast.RShift: ast.LShift,
    ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd, ast.And: ast.Or, ast.Or: ast.And,
}  # fmt: skip

NOTE = """
def _note(which, _seen=set()):
    import os
    test = os.environ.get("PYTEST_CURRENT_TEST", "").rsplit(" (", 1)[0]
    if (which, test) not in _seen:
        _seen.add((which, test))
        with open({folder!r} + f"/{{os.getpid()}}", "a") as file:
            file.write(f"{{which}}\\t{{test}}\\n")
"""


@dataclass(frozen=True)
class Fault:
    """One change of one function: ``site`` counts the nodes of the function that can be changed."""

    file: str
    function: str
    site: int
    change: str


def functions(tree: ast.Module) -> Iterator[tuple[str, ast.FunctionDef]]:
    """The functions and methods of a file, by their qualified names."""

    def below(node: ast.AST, prefix: str) -> Iterator[tuple[str, ast.FunctionDef]]:
        for child in ast.iter_child_nodes(node):
            if isinstance(child, ast.FunctionDef):
                yield prefix + child.name, child
                yield from below(child, f"{prefix}{child.name}.")
            else:
                yield from below(child, f"{prefix}{child.name}." if isinstance(child, ast.ClassDef) else prefix)

    yield from below(tree, "")


def sites(function: ast.FunctionDef) -> list[tuple[ast.expr, ast.expr]]:
    """The changes of a function, in source order: an expression and its replacement; messages are left out."""
    found: list[tuple[ast.expr, ast.expr]] = []

    def walk(node: ast.AST) -> None:
        if isinstance(node, ast.JoinedStr | ast.Raise | ast.Assert | ast.FunctionDef | ast.ClassDef):
            return
        if isinstance(node, ast.If | ast.IfExp | ast.While):
            found.append((node.test, ast.UnaryOp(ast.Not(), node.test)))
        if isinstance(node, ast.expr) and (new := replacement(node)) is not None:
            found.append((node, new))
        for name, child in ast.iter_fields(node):
            for each in child if isinstance(child, list) else [child]:
                if isinstance(each, ast.AST) and name not in ("annotation", "returns"):
                    walk(each)

    for statement in function.body:
        walk(statement)
    return found


def replacement(node: ast.expr) -> ast.expr | None:
    """The mutated expression: another operator, a constant off by one, or a negated condition; None if impossible."""
    match node:
        case ast.Compare(left, [operator], right) if type(operator) in SWAPPED:
            return ast.Compare(left, [SWAPPED[type(operator)]()], right)
        case ast.BinOp(left, operator, right) if type(operator) in SWAPPED:
            return ast.BinOp(left, SWAPPED[type(operator)](), right)
        case ast.BoolOp(operator, values):
            return ast.BoolOp(SWAPPED[type(operator)](), values)
        case ast.UnaryOp(ast.Not(), operand):
            return operand
        case ast.Constant(bool() as value):
            return ast.Constant(not value)
        case ast.Constant(int() as value):
            return ast.Constant(value + 1)
    return None


def changed(root: Path, fault: Fault) -> tuple[str, str]:
    """The source of a file with a fault planted, and a description of the change."""
    source = (root / fault.file).read_bytes()
    node, new = sites(dict(functions(ast.parse(source)))[fault.function])[fault.site]
    starts = [0, *accumulate(map(len, source.splitlines(keepends=True)))]
    assert node.end_lineno is not None
    assert node.end_col_offset is not None
    start, end = starts[node.lineno - 1] + node.col_offset, starts[node.end_lineno - 1] + node.end_col_offset
    mutated = source[:start] + f"({ast.unparse(ast.fix_missing_locations(new))})".encode() + source[end:]
    return mutated.decode(), f"{ast.unparse(node)} -> {ast.unparse(new)}"


def draw(root: Path, seed: int, count: int) -> list[Fault]:
    """Draw functions without repetition, and a site in each."""
    chance = random.Random(seed)
    candidates = []
    for package in PACKAGES:
        for path in sorted((root / package).rglob("*.py")):  # links, as in lathe/, are not followed
            for name, function in functions(ast.parse(path.read_text(encoding="utf-8"))):
                if count_of := len(sites(function)):
                    candidates.append((path.relative_to(root).as_posix(), name, count_of))
    drawn = chance.sample(candidates, count)
    return [planned(root, Fault(file, name, chance.randrange(count_of), "")) for file, name, count_of in drawn]


def planned(root: Path, fault: Fault) -> Fault:
    """A fault with the description of its change."""
    return Fault(fault.file, fault.function, fault.site, changed(root, fault)[1])


def noted(root: Path, file: str, marks: dict[str, int], folder: Path) -> str:
    """The source of a file, instrumented so that the functions in ``marks`` record the tests that enter them."""
    lines = (root / file).read_text(encoding="utf-8").splitlines()
    first = {}
    for name, function in functions(ast.parse("\n".join(lines))):
        if name in marks:
            body = function.body[1:] if ast.get_docstring(function) is not None else function.body
            first[name] = body[0]
    for name, statement in sorted(first.items(), key=lambda item: -item[1].lineno):
        lines.insert(statement.lineno - 1, " " * statement.col_offset + f"_note({marks[name]})")
    return "\n".join(lines) + NOTE.format(folder=str(folder))


def run_tests(copy: Path, tests: list[str], *options: str) -> str | None:
    """The first test that fails, or None."""
    listed = copy / "mutation_score.tests"
    listed.write_text("\n".join(tests))
    environment = {**os.environ, "PYTHONPATH": str(copy), "PYTHONDONTWRITEBYTECODE": "1"}
    command = [sys.executable, "-m", "pytest", "-p", "no:cacheprovider", "-rfE", "--tb=no", *options]
    if tests:
        command.append(f"@{listed}")
    try:
        done = subprocess.run(command, cwd=copy, env=environment, capture_output=True, text=True, timeout=MINUTES * 60)
    except subprocess.TimeoutExpired:
        return "does not end"
    if done.returncode == 0:
        return None
    failed = [line for line in done.stdout.splitlines() if line.startswith(("FAILED ", "ERROR "))]
    return failed[0].split(" ")[1] if failed else f"pytest ended with {done.returncode}"


def reaching_tests(copy: Path, faults: list[Fault]) -> list[list[str]]:
    """For each fault the tests that enter its function; [""] if it is entered during test collection."""
    folder = copy / "mutation_score.reached"
    folder.mkdir()
    originals = {}
    for file in {fault.file for fault in faults}:
        originals[file] = (copy / file).read_text(encoding="utf-8")
        marks = {fault.function: number for number, fault in enumerate(faults) if fault.file == file}
        (copy / file).write_text(noted(copy, file, marks, folder), encoding="utf-8")
    if (failed := run_tests(copy, [])) is not None:
        print(f"a test fails without a fault: {failed}", file=sys.stderr)
    for file, text in originals.items():
        (copy / file).write_text(text, encoding="utf-8")
    reached: list[set[str]] = [set() for _ in faults]
    for path in folder.iterdir():
        for line in path.read_text().splitlines():
            number, test = line.split("\t", 1)
            reached[int(number)].add(test)
    return [sorted(tests) if "" not in tests else [""] for tests in reached]


def rows(root: Path, faults: list[Fault]) -> Iterator[dict[str, object]]:
    """Run the tests against each fault."""
    with tempfile.TemporaryDirectory() as folder:
        copy = Path(folder) / "project"
        shutil.copytree(root, copy, symlinks=True, ignore=shutil.ignore_patterns(".git", "__pycache__", ".*_cache"))
        if (root.parent / "shared").exists():
            (Path(folder) / "shared").symlink_to(root.parent / "shared")
        for fault, tests in zip(faults, reaching_tests(copy, faults), strict=True):
            original = (copy / fault.file).read_text(encoding="utf-8")
            (copy / fault.file).write_text(changed(copy, fault)[0], encoding="utf-8")
            killer = run_tests(copy, tests if tests != [""] else [], "--maxfail=1") if tests else None
            (copy / fault.file).write_text(original, encoding="utf-8")
            yield {**asdict(fault), "reached": len(tests), "killed": killer is not None, "by": killer or ""}


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--faults", type=int, default=60)
    parser.add_argument("--plan", type=Path, help="faults of an earlier run, as --json printed them")
    parser.add_argument("--checkout", type=Path, default=ROOT, help="the checkout to test; run this in its environment")
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    root = options.checkout.resolve()
    if options.plan:
        rows_of_plan = [json.loads(line) for line in options.plan.read_text().splitlines()]
        faults = [planned(root, Fault(row["file"], row["function"], row["site"], "")) for row in rows_of_plan]
    else:
        faults = draw(root, options.seed, options.faults)
    killed = 0
    for row in rows(root, faults):
        killed += bool(row["killed"])
        print(
            json.dumps(row) if options.json else f"{row['file']}:{row['function']}: {row['change']}: {row['by']}",
            flush=True,
        )
    if not options.json:
        print(f"seed {options.seed}: {killed} of {len(faults)} faults killed")
    return 0


if __name__ == "__main__":
    sys.exit(main())
