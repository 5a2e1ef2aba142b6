"""The own source files of a checkout, parsed but never imported, and which of them import which."""

import ast
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

PACKAGES = ("app", "models")
# After the packages moved into `firstword`, the same modules go by a longer name.
PREFIX = "firstword."


@dataclass(frozen=True, slots=True, eq=False)
class Source:
    """One Python file."""

    module: str  # dotted, without PREFIX; a package goes by its folder's name
    path: str  # relative to the checkout, with forward slashes
    tree: ast.Module
    num_lines: int

    @property
    def folder(self) -> str:
        """The first level below app or models; a file that lies there directly stands for itself."""
        parts = self.path.split("/")
        return "/".join(parts[:2])

    @property
    def package(self) -> str:
        """The package that relative imports of this file start from."""
        return self.module if self.path.endswith("/__init__.py") else self.module.rpartition(".")[0]


def read_sources(root: Path, packages: tuple[str, ...] = PACKAGES) -> dict[str, Source]:
    """Module name -> file, sorted by name. Raises FileNotFoundError where a package is missing."""
    sources = {}
    for package in packages:
        if not (root / package).is_dir():
            raise FileNotFoundError(f"{root} has no folder {package}/; give the root of a checkout")
        for path in (root / package).rglob("*.py"):
            relative = path.relative_to(root)
            parts = relative.with_suffix("").parts
            module = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
            text = path.read_text(encoding="utf-8")
            tree = ast.parse(text, str(relative))
            sources[module] = Source(module, relative.as_posix(), tree, len(text.splitlines()))
    return dict(sorted(sources.items()))


def imported_names(source: Source) -> Iterator[tuple[str, str, str | None]]:
    """(local name, module, attribute or None) for each import anywhere in the file, without PREFIX."""
    for node in ast.walk(source.tree):
        if isinstance(node, ast.Import):
            for alias in node.names:
                module = alias.name.removeprefix(PREFIX)
                yield (alias.asname or module.split(".")[0], module, None)
        elif isinstance(node, ast.ImportFrom):
            module = (node.module or "").removeprefix(PREFIX)
            if node.level:
                parts = source.package.split(".")
                above = parts[: len(parts) - node.level + 1]
                module = ".".join([*above, *([node.module] if node.module else [])])
            elif module == PREFIX.rstrip("."):
                for alias in node.names:
                    yield (alias.asname or alias.name, alias.name, None)
                continue
            for alias in node.names:
                yield (alias.asname or alias.name, module, alias.name)


def import_graph(sources: dict[str, Source]) -> dict[str, set[str]]:
    """Module -> the own modules that it imports, at its top, in functions, and for type checkers alike."""
    graph: dict[str, set[str]] = {}
    for module, source in sources.items():
        targets = set()
        for _, imported, name in imported_names(source):
            submodule = f"{imported}.{name}"
            target = submodule if submodule in sources else imported
            if target in sources and target != module:
                targets.add(target)
        graph[module] = targets
    return graph
