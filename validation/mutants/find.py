"""Finds every small change of the code that tests should notice: the mutants.

A mutant replaces one piece of text. It is known by what it changes and where (file, function, text), not by its line,
so that an edit elsewhere leaves it and its place in the sample alone.

Left alone: docstrings, annotations and type aliases, `__all__`, text of messages (f-strings, strings with a space,
everything in a `raise`, the name that a check of `lln.core` puts into its message), `if TYPE_CHECKING`, logging, and
the `strict=` of `zip`, an assertion that holds as long as the code is right.
"""

from __future__ import annotations

import ast
import hashlib
from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

SCOPE = ("src/lln/ops", "src/lln/models", "src/lln/evaluate", "src/lln/step/frame.py", "src/lln/data")
SEED = 20261115
COUNT = 300

# A file or folder, the names in it that are left out (None: all of them), and why.
KERNELS: tuple[tuple[str, tuple[str, ...] | None, str], ...] = (
    ("src/lln/ops/triton/kernels.py", None, "Triton kernels; they run on a GPU only"),
    (
        "src/lln/ops/triton/backend.py",
        ("forward", "forward_kept", "backward", "_in_segments", "_forward", "_backward", "_most_kept", "SEGMENT"),
        "launches the Triton kernels; runs, and is tested, on a GPU only",
    ),
    ("src/lln/ops/triton/plan.py", None, "the launches of the Triton kernels; it runs on a GPU only"),
    ("src/lln/ops/triton/launch.py", None, "a launch of a Triton kernel; it runs on a GPU only"),
    (
        "src/lln/ops/cpu/simd.py",
        ("Target", "Tile", "Variable", "Code", "_return", "_FLUSH"),
        "the instructions that the CPU kernels are written in",
    ),
    (
        "src/lln/ops/cpu/kernels.py",
        (
            *("Lens", "SCALARS", "EXP2", "polynomial", "tanh"),
            *("Block", "_Transport", "pack", "unpack", "_quads", "_columns", "_scatter", "_transpose"),
        ),
        "the body of the CPU kernels: one lens, loops around it, and coefficients transposed in registers",
    ),
    ("src/lln/ops/cpu/loop.py", ("_Writer",), "the body of the CPU kernel of closed loops"),
    (
        "src/lln/ops/cpu/step_parts.py",
        ("gaussian", "sine", "write_functions", "_features", "_FARTHEST", "_PI", "_SINE", "_ROUNDING", "_WIDEST"),
        "Gaussians and sines in the CPU kernel of whole steps",
    ),
    ("src/lln/ops/cpu/step_kernel.py", ("StepWriter",), "the body of the CPU kernel of whole steps"),
    ("src/lln/ops/rollout.py", ("_as_graph", "_GRAPH_STEPS"), "CUDA graphs; they run, and are tested, on a GPU only"),
)

_ARITHMETIC: dict[type[ast.operator], type[ast.operator]] = {
    ast.Add: ast.Sub, ast.Sub: ast.Add, ast.Mult: ast.Div, ast.Div: ast.Mult, ast.FloorDiv: ast.Div,
    ast.Mod: ast.Mult, ast.Pow: ast.Mult, ast.MatMult: ast.Mult, ast.LShift: ast.RShift, ast.RShift: ast.LShift,
    ast.BitAnd: ast.BitOr, ast.BitOr: ast.BitAnd, ast.BitXor: ast.BitAnd,
}  # fmt: skip
_COMPARISONS: dict[type[ast.cmpop], tuple[type[ast.cmpop], ...]] = {
    ast.Lt: (ast.LtE, ast.GtE), ast.LtE: (ast.Lt, ast.Gt), ast.Gt: (ast.GtE, ast.LtE), ast.GtE: (ast.Gt, ast.Lt),
    ast.Eq: (ast.NotEq,), ast.NotEq: (ast.Eq,), ast.Is: (ast.IsNot,), ast.IsNot: (ast.Is,),
    ast.In: (ast.NotIn,), ast.NotIn: (ast.In,),
}  # fmt: skip
_NAMES_IN_MESSAGES = {"whole", "finite", "positive", "interval", "choice"}
_LOGS = {"logging", "logger", "log"}


@dataclass(frozen=True)
class Mutant:
    """One change.

    Attributes:
        file: path from the root of the repository.
        function: qualified name of what it lies in; the assigned name at the level of a module or class.
        operator: the kind of change.
        before: text that it replaces.
        after: text in its place.
        start: first byte of that text in the file.
        stop: one past its last.
        line: where that is.
        reached: lines that run only if the change can be noticed.
        key: what identifies it.
        context: a hash of the function it lies in, or of its statement outside all functions.
    """

    file: str
    function: str
    operator: str
    before: str
    after: str
    start: int
    stop: int
    line: int
    reached: tuple[int, ...] = field(compare=False)
    key: str
    context: str = field(compare=False)

    def applied(self, source: bytes) -> bytes:
        """The file with the change."""
        return source[: self.start] + self.after.encode() + source[self.stop :]

    def __str__(self) -> str:
        """One line for a reader."""
        return f"{self.file}:{self.line} {self.function}: {_short(self.before)}  ->  {_short(self.after)}"


def _short(text: str) -> str:
    flat = " ".join(text.split())
    return flat if len(flat) <= 70 else flat[:67] + "..."


def sample(root: Path, scope: Sequence[str] = SCOPE, count: int = COUNT, seed: int = SEED) -> list[Mutant]:
    """`count` mutants, each as likely as any other, in the order of their files.

    The order of the draw is that of a hash of the seed and the mutant, so a file that changes leaves the draw of the
    others as it is.
    """
    mutants = every(root, scope)
    drawn = sorted(mutants, key=lambda mutant: hashlib.sha256(f"{seed}:{mutant.key}".encode()).digest())[:count]
    return sorted(drawn, key=lambda mutant: (mutant.file, mutant.start, mutant.after))


def every(root: Path, scope: Sequence[str] = SCOPE) -> list[Mutant]:
    """All mutants of the files in scope."""
    out = []
    for place in scope:
        path = root / place
        for file in sorted(path.rglob("*.py")) if path.is_dir() else [path]:
            out += of_file(file.read_bytes(), file.relative_to(root).as_posix())
    return out


def of_file(source: bytes, name: str) -> list[Mutant]:
    """All mutants of one file, the bodies of kernels apart."""
    left_out: tuple[str, ...] | None = ()
    for place, names, _reason in KERNELS:
        if name == place or name.startswith(f"{place}/"):
            left_out = names
    if left_out is None:
        return []
    found = _Finder(source, name).found()
    return [mutant for mutant in found if mutant.function.split(".")[0] not in left_out]


class _Finder:
    """Walks one file. `_walk` knows where it is; `_changes` what can be changed in one node."""

    def __init__(self, source: bytes, name: str) -> None:
        self.source, self.name, self.tree = source, name, ast.parse(source)
        self.lines = source.splitlines(keepends=True)
        self.starts = [0]
        for line in self.lines:
            self.starts.append(self.starts[-1] + len(line))
        self.silent = set(_silent(self.tree))
        functions = [node for node in ast.walk(self.tree) if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef))]
        self.places = [(n.lineno, n.end_lineno or 0, ast.dump(n)) for n in (*self.tree.body, *functions)]
        self.seen: Counter[str] = Counter()
        self.out: list[Mutant] = []

    def found(self) -> list[Mutant]:
        self._body(self.tree.body, "", None)
        return self.out

    def _body(self, body: Sequence[ast.stmt], where: str, function: ast.AST | None) -> None:
        for k, statement in enumerate(body):
            if k == 0 and isinstance(statement, ast.Expr) and isinstance(statement.value, ast.Constant):
                continue  # the docstring
            self._statement(statement, where, function)

    def _statement(self, node: ast.stmt, where: str, function: ast.AST | None) -> None:
        if isinstance(node, (ast.FunctionDef, ast.AsyncFunctionDef)):
            inner = f"{where}.{node.name}".lstrip(".")
            reached = _span(node.body)
            for default in (*node.args.defaults, *(d for d in node.args.kw_defaults if d is not None)):
                self._expression(default, inner, reached, default=True)
            for decorator in node.decorator_list:
                self._expression(decorator, inner, reached)
            self._body(node.body, inner, node)
        elif isinstance(node, ast.ClassDef):
            inner = f"{where}.{node.name}".lstrip(".")
            for value in (*node.decorator_list, *(keyword.value for keyword in node.keywords)):
                self._expression(value, inner, _span(node.body))
            self._body(node.body, inner, None)
        elif isinstance(node, (ast.Raise, ast.Assert, ast.Import, ast.ImportFrom)) or _skipped(node):
            return
        else:
            if function is None:
                target = _target(node)
                where, reached = f"{where}.{target}".strip("."), self._uses(target)
            else:
                reached = (node.lineno,)
            self._simple(node, where, reached, function)

    def _simple(self, node: ast.stmt, where: str, reached: tuple[int, ...], function: ast.AST | None) -> None:
        """What a statement does, then what it is made of, then the statements inside it."""
        for operator, after in _of_statement(node):
            self._add(node, after, operator, where, reached)
        if isinstance(node, ast.If) and isinstance(node.test, ast.Name) and node.test.id == "TYPE_CHECKING":
            return
        if isinstance(node, (ast.If, ast.While)):
            for forced in ("True", "False") if isinstance(node, ast.If) else ("False",):
                self._add(node.test, forced, "condition forced", where, reached)
        for name, value in ast.iter_fields(node):
            if name in ("annotation", "type_comment"):
                continue
            for child in value if isinstance(value, list) else [value]:
                if isinstance(child, ast.stmt):
                    self._statement(child, where, function)
                elif isinstance(child, ast.ExceptHandler):
                    for part in child.body:
                        self._statement(part, where, function)
                elif isinstance(child, ast.withitem):
                    self._expression(child.context_expr, where, reached)
                elif isinstance(child, ast.expr):
                    self._expression(child, where, reached)

    def _expression(self, node: ast.expr, where: str, reached: tuple[int, ...], *, default: bool = False) -> None:
        if isinstance(node, ast.JoinedStr):
            return
        for operator, after in _of_expression(node):
            if node not in self.silent:
                kind = "default argument" if default and operator == "constant" else operator
                self._add(node, after, kind, where, reached)
        if isinstance(node, ast.Constant):
            return
        for test in _conditions(node):
            for forced in ("True", "False"):
                self._add(test, forced, "condition forced", where, reached)
        for child in _parts(node):
            self._expression(child, where, reached)

    def _uses(self, target: str) -> tuple[int, ...]:
        """Lines that speak of a name of the module or class."""
        lines = {
            node.lineno
            for node in ast.walk(self.tree)
            if (isinstance(node, ast.Name) and node.id == target and isinstance(node.ctx, ast.Load))
            or (isinstance(node, ast.Attribute) and node.attr == target)
        }
        return tuple(sorted(lines))

    def _add(self, node: ast.expr | ast.stmt, after: str, operator: str, where: str, reached: tuple[int, ...]) -> None:
        start = self.starts[node.lineno - 1] + node.col_offset
        stop = self.starts[(node.end_lineno or 0) - 1] + (node.end_col_offset or 0)
        before = self.source[start:stop].decode()
        if before == after:
            return
        line = self.lines[node.lineno - 1].decode().strip()
        text = "\0".join((self.name, where, operator, line, before, after))
        self.seen[text] += 1
        key = hashlib.sha256(f"{text}\0{self.seen[text]}".encode()).hexdigest()[:12]
        where = where or "module"
        around = [(last - first, text) for first, last, text in self.places if first <= node.lineno <= last]
        context = hashlib.sha256(min(around)[1].encode() if around else line.encode()).hexdigest()[:16]
        self.out.append(
            Mutant(
                self.name,
                where,
                operator,
                before,
                after,
                start,
                stop,
                node.lineno,
                tuple(sorted(reached)),
                key,
                context,
            )
        )


def _span(body: Sequence[ast.stmt]) -> tuple[int, ...]:
    return tuple(range(body[0].lineno, (body[-1].end_lineno or body[-1].lineno) + 1))


def _target(node: ast.stmt) -> str:
    """The name that a statement of a module or class assigns to."""
    if isinstance(node, (ast.AnnAssign, ast.AugAssign)):
        targets: Sequence[ast.expr] = [node.target]
    else:
        targets = node.targets if isinstance(node, ast.Assign) else []
    names = [part.id for target in targets for part in ast.walk(target) if isinstance(part, ast.Name)]
    return names[0] if names else ""


def _skipped(node: ast.stmt) -> bool:
    """`__all__`, type aliases and logging."""
    if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name):
        name = node.targets[0].id
        union = isinstance(node.value, ast.BinOp) and isinstance(node.value.op, ast.BitOr)
        alias = (
            name.lstrip("_")[:1].isupper() and not name.isupper() and (union or isinstance(node.value, ast.Subscript))
        )
        return name == "__all__" or alias
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
        function = node.value.func
        return (
            isinstance(function, ast.Attribute) and isinstance(function.value, ast.Name) and function.value.id in _LOGS
        )
    return False


def _silent(tree: ast.AST) -> Iterator[ast.expr]:
    """Constants that only a message shows, or that only assert."""
    for node in ast.walk(tree):
        if not isinstance(node, ast.Call):
            continue
        name = node.func.id if isinstance(node.func, ast.Name) else getattr(node.func, "attr", "")
        if name in _NAMES_IN_MESSAGES or name == "cast":
            yield from node.args[:1]
        if name == "zip":
            yield from (keyword.value for keyword in node.keywords if keyword.arg == "strict")
        if name.endswith(("Error", "Warning")) or name == "warn":
            yield from (part for part in ast.walk(node) if isinstance(part, ast.Constant))


def _conditions(node: ast.expr) -> Iterator[ast.expr]:
    if isinstance(node, ast.IfExp):
        yield node.test
    for loop in getattr(node, "generators", ()):
        yield from loop.ifs


def _parts(node: ast.expr) -> Iterator[ast.expr]:
    """The expressions inside an expression that may change."""
    if isinstance(node, ast.Call):
        name = node.func.id if isinstance(node.func, ast.Name) else ""
        yield node.func
        yield from node.args[: 1 if name in ("isinstance", "issubclass") else None]
        yield from (keyword.value for keyword in node.keywords)
        return
    if isinstance(node, ast.Lambda):
        yield node.body
        return
    if isinstance(node, ast.Slice):
        bounds = (node.lower, node.upper, node.step)
        yield from (bound for bound in bounds if bound is not None and not isinstance(bound, ast.Constant))
        return
    for child in ast.iter_child_nodes(node):
        if isinstance(child, ast.expr):
            yield child
        elif isinstance(child, ast.comprehension):
            yield child.iter
            yield from child.ifs


def _of_statement(node: ast.stmt) -> Iterator[tuple[str, str]]:
    if isinstance(node, ast.Expr) and isinstance(node.value, ast.Call):
        yield "call deleted", "pass"
    elif isinstance(node, (ast.Assign, ast.AugAssign, ast.AnnAssign)):
        targets = node.targets if isinstance(node, ast.Assign) else [node.target]
        parts = [part for t in targets for part in (t.elts if isinstance(t, ast.Tuple) else [t])]
        if all(isinstance(part, ast.Attribute) for part in parts):
            yield "assignment deleted", "pass"
        if isinstance(node, ast.AugAssign):
            swapped = ast.AugAssign(node.target, _ARITHMETIC[type(node.op)](), node.value)
            yield "arithmetic", ast.unparse(swapped)
    elif isinstance(node, ast.Return) and ast.unparse(node) not in ("return", "return None"):
        yield "return None", "return None"


def _of_expression(node: ast.expr) -> Iterator[tuple[str, str]]:
    def text(new: ast.expr) -> str:
        return f"({ast.unparse(new)})"

    if isinstance(node, ast.BinOp):
        yield "arithmetic", text(ast.BinOp(node.left, _ARITHMETIC[type(node.op)](), node.right))
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.USub):
        yield "arithmetic", text(node.operand)
    elif isinstance(node, ast.UnaryOp) and isinstance(node.op, ast.Not):
        yield "not removed", text(node.operand)
    elif isinstance(node, ast.BoolOp):
        other = ast.Or() if isinstance(node.op, ast.And) else ast.And()
        yield "and/or", text(ast.BoolOp(other, node.values))
    elif isinstance(node, ast.Compare):
        for k, op in enumerate(node.ops):
            for other_op in _COMPARISONS[type(op)]:
                ops = [*node.ops[:k], other_op(), *node.ops[k + 1 :]]
                yield "comparison", text(ast.Compare(node.left, ops, node.comparators))
    elif isinstance(node, ast.Slice):
        yield from (("slice", ast.unparse(new)) for new in _slices(node))
    elif isinstance(node, ast.Constant):
        yield from (("constant", repr(value)) for value in _constants(node.value))


def _slices(node: ast.Slice) -> Iterator[ast.Slice]:
    def moved(bound: ast.expr) -> ast.expr:
        if isinstance(bound, ast.Constant) and isinstance(bound.value, int):
            return ast.Constant(bound.value + 1)
        return ast.BinOp(bound, ast.Add(), ast.Constant(1))

    if node.lower is not None:
        yield ast.Slice(moved(node.lower), node.upper, node.step)
    elif node.upper is not None:
        yield ast.Slice(ast.Constant(1), node.upper, node.step)
    if node.upper is not None:
        yield ast.Slice(node.lower, moved(node.upper), node.step)
    elif node.lower is not None:
        yield ast.Slice(node.lower, ast.UnaryOp(ast.USub(), ast.Constant(1)), node.step)


def _constants(value: object) -> Iterator[object]:
    if isinstance(value, bool):
        yield not value
    elif isinstance(value, (int, float)):
        yield value + 1
    elif isinstance(value, str) and " " not in value:
        yield value + "x"
