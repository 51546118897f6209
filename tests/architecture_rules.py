"""The rules of the code's shape, as functions from parsed modules to violations."""

from __future__ import annotations

import ast
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

MAX_FILE_LINES = 400
LONG_FILE_LINES = 250
MAX_FUNCTION_LINES = 60

WEB = frozenset({"gradio", "gradio_client", "fastapi", "starlette", "uvicorn"})
NATIVE = frozenset({"ctypes", "llama_cpp"})
FLOORS = (
    "data",  # requests, events, figures, errors, folders: plain values
    "maths",  # sampling and verification, pure numpy
    "children",  # processes that speak JSON lines
    "files",  # formats of model files, the project's own JSON stores
    "heads",  # files of learned heads
    "models",  # which models there are, and which fit together
    "downloads",  # the Hub and the package index
    "llama",  # the only floor that touches native code
    "measure",  # what passes cost
    "control",  # how far to draft
    "text",  # messages to tokens and back
    "skip",  # which layers a drafter can do without
    "drafters",  # what proposes tokens
    "decode",  # the round loop
    "serving",  # loads and replies
    "process",  # the engine's own process, and who talks to it
    "train",  # drafters learned from a target
    "bench",  # whether it pays, whether it is exact
    "cli",  # the commands
)
"""The engine's folders from the bottom up: a module imports from its own floor and those below."""

PURE_MAY_IMPORT = frozenset({"engine.data.errors", "engine.data.request"})
PURE_ENGINE = "engine.maths."
PURE_STANDARD = frozenset(
    {"__future__", "collections", "dataclasses", "functools", "itertools", "math", "secrets"}
    | {"typing"}
)
# The interface process starts the engine process, and must not load what that one loads.
LAZY_IMPORTS = frozenset({("engine.process.spawn", "engine.process.worker.run_worker")})

KINDS_FOLDER = "engine.drafters.kinds."

# In parts, so that this file keeps the rule too.
_HOSTS = (
    ("hugging", "face.co"),
    ("hf", ".co"),
    ("pypi", ".org"),
    ("pythonhosted", ".org"),
    ("npm", "js.org"),
    ("npm", "js.com"),
    ("deb.", "debian.org"),
)
_HOST = re.compile("|".join(rf"\b{re.escape(a + b)}\b" for a, b in _HOSTS))
_MACHINE_PATH = re.compile(r"(?<![\w.])/(?:work|root|tmp/w|opt/(?:wheels|pypi))(?![\w-])")
_HOME_PATH = re.compile(r"(?<![\w.])(?:/home|/Users|[A-Z]:\\Users)[/\\][a-z]\w*")


@dataclass(frozen=True, slots=True)
class Module:
    """name: dotted, a package's `__init__` under the package's name."""

    name: str
    source: str
    tree: ast.Module

    @property
    def top(self) -> str:
        return self.name.partition(".")[0]


@dataclass(frozen=True, slots=True)
class Import:
    """target: what is imported, `a.b` for both `import a.b` and `from a import b`."""

    target: str
    line: int
    in_function: bool
    typing_only: bool
    star: bool

    @property
    def top(self) -> str:
        return self.target.partition(".")[0]


Rule = Callable[[Module], list[str]]


def parse(name: str, source: str) -> Module:
    return Module(name, source, ast.parse(source))


def read_modules(root: Path, folders: Sequence[str]) -> list[Module]:
    modules = []
    for folder in folders:
        for path in sorted((root / folder).rglob("*.py")):
            parts = path.relative_to(root).with_suffix("").parts
            name = ".".join(parts[:-1] if parts[-1] == "__init__" else parts)
            modules.append(parse(name, path.read_text(encoding="utf-8")))
    return modules


def imports_of(module: Module) -> list[Import]:
    return list(_imports(module.tree, in_function=False, typing_only=False))


def _imports(node: ast.AST, in_function: bool, typing_only: bool) -> Iterator[Import]:
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.Import):
            for alias in child.names:
                yield Import(alias.name, child.lineno, in_function, typing_only, star=False)
        elif isinstance(child, ast.ImportFrom):
            base = "." * child.level + (child.module or "")
            for alias in child.names:
                star = alias.name == "*"
                target = base if star else f"{base}.{alias.name}"
                yield Import(target, child.lineno, in_function, typing_only, star)
        else:
            inside = in_function or isinstance(
                child, ast.FunctionDef | ast.AsyncFunctionDef | ast.Lambda
            )
            guarded = typing_only or _is_typing_guard(child)
            yield from _imports(child, inside, guarded)


def _is_typing_guard(node: ast.AST) -> bool:
    return isinstance(node, ast.If) and ast.unparse(node.test).endswith("TYPE_CHECKING")


def boundaries(module: Module) -> list[str]:
    """Who may import whom: engine, app, web packages, native packages, pure modules."""
    return [
        f"{module.name}:{one.line} imports {one.target}: {reason}"
        for one in imports_of(module)
        if (reason := _boundary_reason(module, one))
    ]


def _boundary_reason(module: Module, one: Import) -> str:
    if one.target.startswith("."):
        return "relative imports hide where a name comes from"
    if one.top == "app" and module.top != "app":
        return "only app may import app"
    if one.top in WEB and module.top != "app":
        return "web packages belong to app/"
    if one.top in NATIVE and not module.name.startswith("engine.llama"):
        return "only engine/llama/ touches native code"
    if module.top == "setup" and one.top in ("engine", "app"):
        return "the set-up runs before the project is installed"
    if module.name.startswith("engine.maths") and not _pure(one):
        return "a pure module knows numpy and pure modules only"
    return ""


def _pure(one: Import) -> bool:
    owner = one.target.rpartition(".")[0]
    in_reach = bool(PURE_MAY_IMPORT & {one.target, owner}) or one.target.startswith(PURE_ENGINE)
    return one.top in PURE_STANDARD | {"numpy"} or in_reach


def floors(module: Module) -> list[str]:
    """In the engine every import runs down, also one that only type checkers see."""
    if module.top != "engine" or module.name == "engine":
        return []
    own = _floor(module.name)
    if own is None:
        return [f"{module.name} stands on no floor: put it into one of {', '.join(FLOORS)}"]
    return [
        f"{module.name}:{one.line} imports {one.target}, which is above it"
        for one in imports_of(module)
        if one.top == "engine" and (_floor(one.target) or 0) > own
    ]


def _floor(name: str) -> int | None:
    folder = name.partition(".")[2].partition(".")[0]
    return FLOORS.index(folder) if folder in FLOORS else None


def import_forms(module: Module) -> list[str]:
    """No star imports anywhere; in the engine no imports inside functions."""
    found = []
    for one in imports_of(module):
        if one.star:
            found.append(f"{module.name}:{one.line} imports * from {one.target}")
        lazy = (module.name, one.target) in LAZY_IMPORTS or _opens_a_drafter(module)
        if one.in_function and module.top == "engine" and not lazy:
            found.append(f"{module.name}:{one.line} imports {one.target} inside a function")
    return found


def _opens_a_drafter(module: Module) -> bool:
    """The interface process lists kinds: what opens one is imported when it is opened."""
    return module.name.startswith(KINDS_FOLDER)


def keyword_dictionaries(module: Module) -> list[str]:
    """Engine functions spell out their parameters."""
    return [
        f"{module.name}:{node.lineno} {node.name} takes **{node.args.kwarg.arg}"
        for node in ast.walk(module.tree)
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef) and node.args.kwarg
    ]


def import_graph(modules: Sequence[Module]) -> dict[str, set[str]]:
    """Module to the modules it imports while it is loaded."""
    names = {module.name for module in modules}
    graph: dict[str, set[str]] = {}
    for module in modules:
        lazy = {target for owner, target in LAZY_IMPORTS if owner == module.name}
        targets = [
            one.target
            for one in imports_of(module)
            if not one.typing_only
            and one.target not in lazy
            and not (one.in_function and _opens_a_drafter(module))
        ]
        owners = {t if t in names else t.rpartition(".")[0] for t in targets}
        graph[module.name] = (owners & names) - {module.name}
    return graph


def reached(graph: Mapping[str, set[str]], start: str) -> set[str]:
    """All modules that importing `start` loads."""
    found: set[str] = set()
    waiting = [start]
    while waiting:
        name = waiting.pop()
        if name not in found:
            found.add(name)
            waiting += graph.get(name, ())
    return found


def cycles(graph: Mapping[str, set[str]]) -> list[str]:
    """One import cycle for each module that closes one, as `a -> b -> a`."""
    found: list[str] = []
    done: set[str] = set()

    def visit(name: str, path: list[str]) -> None:
        if name in path:
            found.append(" -> ".join([*path[path.index(name) :], name]))
        elif name not in done:
            for target in sorted(graph.get(name, ())):
                visit(target, [*path, name])
            done.add(name)

    for name in sorted(graph):
        visit(name, [])
    return found


def sizes(module: Module) -> list[str]:
    found = []
    lines = len(module.source.splitlines())
    if lines > MAX_FILE_LINES:
        found.append(f"{module.name} has {lines} lines, at most {MAX_FILE_LINES}")
    for node in ast.walk(module.tree):
        if isinstance(node, ast.FunctionDef | ast.AsyncFunctionDef):
            length = (node.end_lineno or node.lineno) - node.lineno + 1
            if length > MAX_FUNCTION_LINES:
                found.append(f"{module.name}:{node.lineno} {node.name} has {length} lines")
    return found


def docstrings(module: Module) -> list[str]:
    return [] if ast.get_docstring(module.tree) else [f"{module.name} has no docstring"]


def foreign_text(name: str, text: str) -> list[str]:
    """Host names of registries, and absolute paths of somebody's machine."""
    return [
        f"{name}:{number} names {found.group()}"
        for number, line in enumerate(text.splitlines(), 1)
        for pattern in (_HOST, _MACHINE_PATH, _HOME_PATH)
        if (found := pattern.search(line))
    ]
