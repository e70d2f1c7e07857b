"""The Python examples of the pages as modules, for type checkers.

An example is a piece of a program, so its module begins with what the piece does not say: imports that the page has before, and
`name: Any` for each other name that it uses and does not make. Examples that are no complete statements ("…") are left out.
"""

from __future__ import annotations

import ast
import builtins
import re
from collections.abc import Iterator
from pathlib import Path

_BLOCK = re.compile(r"^```python[^\n]*\n(.*?)^```", re.MULTILINE | re.DOTALL)


def modules(pages: list[Path], top: Path) -> Iterator[tuple[str, str]]:
    """Yields the name of a module, "docs_train_data_md_44", and its text. The number is that of the example's first line."""
    for page in pages:
        text = page.read_text()
        imported: dict[str, str] = {}  # by name: the line that imports it
        for match in _BLOCK.finditer(text):
            try:
                tree = ast.parse(match[1])
            except SyntaxError:
                continue
            line = text.count("\n", 0, match.start()) + 2
            title = re.sub(r"\W", "_", str(page.relative_to(top)))
            yield f"{title}_{line}", _module_of(match[1], tree, imported)
            imported.update(_imports(tree))


def _imports(tree: ast.Module) -> Iterator[tuple[str, str]]:
    for node in tree.body:
        if isinstance(node, (ast.Import, ast.ImportFrom)):
            for alias in node.names:
                yield (alias.asname or alias.name.split(".")[0]), ast.unparse(node)


def _module_of(text: str, tree: ast.Module, imported: dict[str, str]) -> str:
    names = [node for node in ast.walk(tree) if isinstance(node, ast.Name)]
    made = {node.id for node in names if isinstance(node.ctx, ast.Store) and _is_made_first(node, tree)}
    made |= {name for name, _ in _imports(tree)}
    made |= {node.name for node in ast.walk(tree) if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef, ast.ClassDef))}
    made |= {node.arg for node in ast.walk(tree) if isinstance(node, ast.arg)}
    used = [node.id for node in names if node.id not in made and not hasattr(builtins, node.id)]
    head = ["from __future__ import annotations", "from typing import Any"]
    given = dict.fromkeys(imported[name] for name in used if name in imported)
    head += [*given, *(f"{name}: Any = None" for name in dict.fromkeys(used) if name not in imported)]
    head.append("_given: Any = None")  # what an example writes as "..."
    body = re.sub(r"= \.\.\.$", "= _given", text, flags=re.MULTILINE)
    if not _stands_alone(text):  # it leaves a loop or a function that it does not show
        body = "async def _part() -> Any:\n    while True:\n" + "".join(f"        {line}\n" for line in body.splitlines())
    return "\n".join(head) + "\n" + body


def _stands_alone(text: str) -> bool:
    try:
        compile(text, "example", "exec")
    except SyntaxError:
        return False
    return True


def _is_made_first(node: ast.Name, tree: ast.Module) -> bool:
    """Returns whether no line before has used the name: `optimizer = wrapped(optimizer)` needs one from before."""
    first = next(each for each in _in_order(tree) if each.id == node.id)
    return isinstance(first.ctx, ast.Store)


def _in_order(tree: ast.Module) -> list[ast.Name]:
    """Returns the names in the order of their evaluation: the value of an assignment comes before its target."""
    found: list[ast.Name] = []

    def visit(node: ast.AST) -> None:
        if isinstance(node, ast.Name):
            found.append(node)
        children = list(ast.iter_child_nodes(node))
        if isinstance(node, (ast.Assign, ast.AugAssign, ast.AnnAssign)) and node.value is not None:
            children = [node.value, *(child for child in children if child is not node.value)]
        if isinstance(node, (ast.For, ast.AsyncFor)):
            children = [node.iter, *(child for child in children if child is not node.iter)]
        if isinstance(node, (ast.ListComp, ast.SetComp, ast.GeneratorExp, ast.DictComp)):
            children = [*node.generators, *(child for child in children if child not in node.generators)]
        for child in children:
            visit(child)

    visit(tree)
    return found
