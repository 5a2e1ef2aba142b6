"""Find which function of a checkout mentions which, from its source alone.

A mention is resolved by these rules:

1. A name is what the file defines or imports under it. A local variable has the classes of its annotation,
   or of everything assigned to it.
2. An expression has the own classes that its annotation names: `list[Chunk] | None` stands for `Chunk`. The
   result of an unknown call (`next(x)`, `asyncio.to_thread(f, x)`) has the classes of its arguments.
3. `x.name` is the method or property of the classes of `x`. For a base class it is also that of its
   subclasses, for a Protocol that of every class with its members and the same argument names. Classes that
   match `excluded` implement nothing.
4. `Class(...)` mentions `__init__` and `__post_init__`; `with`, `for`, a call of an object and `x[...]`
   mention their special methods.
5. An object one of whose methods is reached also runs its threads (`Thread(target=self._run)`).
6. What only a failure runs is left out: `except`, `raise`, `assert`, and the exit of a `with`.

A function that is only mentioned (handed to a thread, to `partial`) counts like one that is called. A
function that arrives through a `Callable` without a name, or through a framework, is not found: `links`
adds such steps.
"""

import ast
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fnmatch import fnmatch

from firstword.bench.sources import Source, imported_names

FunctionNode = ast.FunctionDef | ast.AsyncFunctionDef
_Types = frozenset["Class"]
_Members = dict[str, tuple[str, ...] | None]
_NOTHING: _Types = frozenset()
_FAILURE = (ast.ExceptHandler, ast.Raise, ast.Assert)
_ENTERING = {"enter_context": "__enter__", "enter_async_context": "__aenter__"}
_PROPERTIES = {"property", "cached_property", "functools.cached_property"}


@dataclass(slots=True, eq=False)
class Class:
    name: str
    source: Source
    node: ast.ClassDef
    methods: dict[str, "Function"] = field(default_factory=dict)

    @property
    def is_protocol(self) -> bool:
        return any("Protocol" in ast.unparse(base) for base in self.node.bases)


@dataclass(slots=True, eq=False)
class Function:
    name: str  # qualified within its file: Class.method, outer.inner
    source: Source
    node: FunctionNode
    owner: Class | None
    outer: "Function | None" = None
    inner: dict[str, "Function"] = field(default_factory=dict)

    @property
    def key(self) -> str:
        return f"{self.source.module}:{self.name}"

    @property
    def location(self) -> str:
        return f"{self.source.path}:{self.name}"

    @property
    def is_property(self) -> bool:
        return any(ast.unparse(each) in _PROPERTIES for each in self.node.decorator_list)

    @property
    def num_lines(self) -> int:
        return (self.node.end_lineno or self.node.lineno) - self.node.lineno + 1


_Symbol = Class | Function | ast.expr | str  # str: a module; ast.expr: what is assigned at a file's top


class CallGraph:
    def __init__(self, sources: dict[str, Source], excluded: Sequence[str] = ()) -> None:
        """excluded: patterns of paths (`models/vllm/*`) or of `path:name` of classes and functions."""
        self._sources = sources
        self._excluded = excluded
        self.functions: dict[str, Function] = {}
        self._classes: list[Class] = []
        self._symbols: dict[str, dict[str, _Symbol]] = {}
        self._homes: dict[int, Source] = {}  # of what is assigned at the top of a file, by its identity
        self._imports: dict[str, dict[str, tuple[str, str | None]]] = {}
        for module, source in sources.items():
            self._imports[module] = {name: (of, what) for name, of, what in imported_names(source)}
            self._symbols[module] = {}
            self._define(source, source.tree.body, None, None)
        self._variables: dict[str, dict[str, _Types]] = {}
        self._attributes: dict[tuple[Class, str], _Types] = {}
        self._mentioned: dict[str, list[Function]] = {}
        self._bases = {each: self._bases_of(each) for each in self._classes}
        self._implementations = self._find_implementations()

    def mentioned_by(self, function: Function) -> list[Function]:
        """In the order of the source, each once."""
        if function.key in self._mentioned:
            return self._mentioned[function.key]
        found: dict[str, Function] = {}
        targets = [*self._dependencies(function)]
        for node in _own_nodes(function.node):
            targets.extend(self._targets(node, function))
        for target in targets:
            if target is not function:
                found.setdefault(target.key, target)
        self._mentioned[function.key] = list(found.values())
        return self._mentioned[function.key]

    def _dependencies(self, function: Function) -> Iterator[Function]:
        """What `Depends(f)` in an argument's annotation, or in the alias that it names, calls."""
        arguments = function.node.args
        for argument in [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]:
            annotation, module = argument.annotation, function.source.module
            if isinstance(annotation, ast.Name):
                alias = self._symbol(module, annotation.id)
                if isinstance(alias, ast.expr):
                    annotation, module = alias, self._homes[id(alias)].module
            for node in ast.walk(annotation) if annotation is not None else ():
                if isinstance(node, ast.Call) and ast.unparse(node.func) in ("Depends", "Security"):
                    for given in node.args:
                        symbol = self._symbol_of(given, module)
                        if isinstance(symbol, Function):
                            yield symbol

    def reachable(self, entries: Sequence[str], links: Mapping[str, str]) -> list[Function]:
        """Breadth first from the functions that match the entries, patterns of `path:name` all.

        links: caller -> callee, mentions that the source does not show. Excluded functions are not entered.
        """
        starts = (each for pattern in entries for each in self.matching(pattern))
        seen = {each.key: each for each in starts if not self._is_excluded(each)}
        waiting = list(seen.values())
        while waiting:
            function = waiting.pop(0)
            for target in [*self.steps_from(function, links), *self._threads_of(function)]:
                if target.key not in seen and not self._is_excluded(target):
                    seen[target.key] = target
                    waiting.append(target)
        return list(seen.values())

    def steps_from(self, function: Function, links: Mapping[str, str]) -> list[Function]:
        """What it mentions, and what the links add."""
        steps = list(self.mentioned_by(function))
        for caller, callee in links.items():
            if _matches(function.location, caller):
                steps.extend(self.matching(callee))
        return steps

    def matching(self, pattern: str) -> list[Function]:
        """pattern: `a|b` matches what either does."""
        return [each for each in self.functions.values() if _matches(each.location, pattern)]

    def _threads_of(self, function: Function) -> Iterator[Function]:
        """What the threads run that an object starts, once one of its methods is on the way."""
        for method in function.owner.methods.values() if function.owner is not None else ():
            for node in _own_nodes(method.node):
                if isinstance(node, ast.Call) and ast.unparse(node.func) in ("threading.Thread", "Thread"):
                    for given in (each.value for each in node.keywords if each.arg == "target"):
                        yield from self._functions_named(given, method)

    # Definitions

    def _define(
        self, source: Source, body: Sequence[ast.stmt], owner: Class | None, outer: Function | None
    ) -> None:
        for node in body:
            if isinstance(node, FunctionNode):
                self._define_function(source, node, owner, outer)
            elif isinstance(node, ast.ClassDef):
                defined = Class(node.name, source, node)
                self._classes.append(defined)
                if owner is None and outer is None:
                    self._symbols[source.module][node.name] = defined
                self._define(source, node.body, defined, outer)
            elif isinstance(node, ast.If | ast.Try):
                self._define(source, node.body, owner, outer)
                self._define(source, node.orelse, owner, outer)
            elif owner is None and outer is None:
                for name, value in _assigned(node):
                    self._symbols[source.module][name] = value
                    self._homes[id(value)] = source

    def _define_function(
        self, source: Source, node: FunctionNode, owner: Class | None, outer: Function | None
    ) -> None:
        scope = outer.name if outer is not None else owner.name if owner is not None else ""
        function = Function(f"{scope}.{node.name}" if scope else node.name, source, node, owner, outer)
        self.functions.setdefault(function.key, function)
        if outer is not None:
            outer.inner[node.name] = function
        elif owner is not None:
            owner.methods.setdefault(node.name, function)
        else:
            self._symbols[source.module].setdefault(node.name, function)
        for statement in ast.walk(node):
            if isinstance(statement, FunctionNode) and statement is not node and _parent(node, statement):
                self._define_function(source, statement, owner, function)

    def _bases_of(self, defined: Class) -> list[Class]:
        bases = []
        for expression in defined.node.bases:
            inner = expression.value if isinstance(expression, ast.Subscript) else expression
            symbol = self._symbol_of(inner, defined.source.module)
            if isinstance(symbol, Class):
                bases.append(symbol)
        return bases

    def _ancestors(self, defined: Class) -> Iterator[Class]:
        yield defined
        for base in self._bases[defined]:
            yield from self._ancestors(base)

    def _find_implementations(self) -> dict[Class, list[Class]]:
        """Class -> the classes that may stand where it is named, itself first unless it is a Protocol."""
        able = [each for each in self._classes if not self._is_excluded(each)]
        found: dict[Class, list[Class]] = {each: [] for each in self._classes}
        for each in able:
            for ancestor in self._ancestors(each):
                if ancestor is not each:
                    found[ancestor].append(each)
        members = {each: self._members(each) for each in self._classes}
        for protocol in (each for each in self._classes if each.is_protocol and members[each]):
            for each in able:
                if each.is_protocol or each in found[protocol]:
                    continue
                if all(_fits(members[each], name, wanted) for name, wanted in members[protocol].items()):
                    found[protocol].append(each)
        return found

    def _members(self, defined: Class) -> _Members:
        """Methods with the names of their arguments; None for properties, fields and attributes of self."""
        found: _Members = {}
        for ancestor in self._ancestors(defined):
            for name in _field_names(ancestor):
                found.setdefault(name, None)
            for name, method in ancestor.methods.items():
                arguments = tuple(
                    each.arg for each in (*method.node.args.posonlyargs, *method.node.args.args)
                )
                found.setdefault(name, None if method.is_property else arguments[1:])
        return found

    def _is_excluded(self, defined: "Class | Function") -> bool:
        path, name = defined.source.path, defined.name
        return any(fnmatch(path, rule) or fnmatch(f"{path}:{name}", rule) for rule in self._excluded)

    # Names

    def _symbol(self, module: str, name: str, depth: int = 0) -> _Symbol | None:
        if name in self._symbols.get(module, {}):
            return self._symbols[module][name]
        if name not in self._imports.get(module, {}) or depth > 8:
            return None
        of, what = self._imports[module][name]
        if what is None:
            return of if of in self._sources else name if name in self._sources else None
        if f"{of}.{what}" in self._sources:
            return f"{of}.{what}"
        return self._symbol(of, what, depth + 1)

    def _symbol_of(self, expression: ast.expr, module: str) -> _Symbol | None:
        if isinstance(expression, ast.Name):
            return self._symbol(module, expression.id)
        if isinstance(expression, ast.Attribute):
            base = self._symbol_of(expression.value, module)
            if isinstance(base, str):
                inner = f"{base}.{expression.attr}"
                return inner if inner in self._sources else self._symbol(base, expression.attr)
        return None

    # Types

    def _named_classes(self, annotation: ast.expr | None, source: Source, depth: int = 0) -> _Types:
        """The own classes that an annotation, or the alias behind it, names."""
        if annotation is None or depth > 4:
            return _NOTHING
        found: set[Class] = set()
        for node in ast.walk(annotation):
            if isinstance(node, ast.Constant) and isinstance(node.value, str):
                try:
                    inner = ast.parse(node.value, mode="eval").body
                except (SyntaxError, ValueError):
                    continue
                found |= self._named_classes(inner, source, depth + 1)
            elif isinstance(node, ast.Name | ast.Attribute):
                symbol = self._symbol_of(node, source.module)
                if isinstance(symbol, Class):
                    found.add(symbol)
                elif isinstance(symbol, ast.expr):
                    found |= self._named_classes(symbol, self._homes.get(id(symbol), source), depth + 1)
        return frozenset(found)

    def _variables_of(self, function: Function) -> dict[str, _Types]:
        if function.key in self._variables:
            return self._variables[function.key]
        variables: dict[str, _Types] = {}
        self._variables[function.key] = variables
        arguments = function.node.args
        for argument in [*arguments.posonlyargs, *arguments.args, *arguments.kwonlyargs]:
            variables[argument.arg] = self._named_classes(argument.annotation, function.source)
        for extra in (arguments.vararg, arguments.kwarg):
            if extra is not None:
                variables[extra.arg] = self._named_classes(extra.annotation, function.source)
        if function.owner is not None and function.outer is None and arguments.args:
            variables[arguments.args[0].arg] = frozenset({function.owner})
        for _ in range(2):  # a variable may be used above the line that tells its class
            for node in _own_nodes(function.node):
                for name, value, annotation in _bindings(node):
                    types = self._named_classes(annotation, function.source)
                    if value is not None and annotation is None:
                        types |= self._types(value, function)
                    variables[name] = variables.get(name, _NOTHING) | types
        return variables

    def _types(self, expression: ast.expr, within: Function) -> _Types:
        match expression:
            case ast.Name(id=name):
                return self._types_of_name(name, within)
            case ast.Attribute(value=value, attr=attribute):
                symbol = self._symbol_of(expression, within.source.module)
                if isinstance(symbol, ast.expr):
                    return self._types_at_top(symbol, within)
                return self._types_of_attribute(self._types(value, within), attribute)
            case ast.Call():
                return self._types_of_call(expression, within)
            case ast.Constant() | ast.JoinedStr() | ast.Compare():
                return _NOTHING
            case ast.Dict(values=values):
                return self._union(values, within)
            case ast.Lambda(body=body):
                return self._types(body, within)
            case ast.ListComp(elt=element) | ast.SetComp(elt=element) | ast.GeneratorExp(elt=element):
                return self._types(element, within)
            case ast.DictComp(value=value):
                return self._types(value, within)
            case ast.IfExp(body=body, orelse=orelse):
                return self._union([body, orelse], within)
            case ast.Subscript(value=value):
                return self._types(value, within)
        children = [each for each in ast.iter_child_nodes(expression) if isinstance(each, ast.expr)]
        return self._union(children, within)

    def _union(self, expressions: Sequence[ast.expr], within: Function) -> _Types:
        return frozenset().union(*(self._types(each, within) for each in expressions))

    def _types_of_name(self, name: str, within: Function) -> _Types:
        scope: Function | None = within
        while scope is not None:
            variables = self._variables_of(scope)
            if name in variables:
                return variables[name]
            scope = scope.outer
        symbol = self._symbol(within.source.module, name)
        return self._types_at_top(symbol, within) if isinstance(symbol, ast.expr) else _NOTHING

    def _types_at_top(self, value: ast.expr, within: Function) -> _Types:
        return self._named_classes(value, self._homes.get(id(value), within.source))

    def _types_of_attribute(self, types: _Types, attribute: str) -> _Types:
        found: set[Class] = set()
        for each in types:
            for able in self._stand_ins(each):
                found |= self._attribute_of(able, attribute)
        return frozenset(found)

    def _attribute_of(self, defined: Class, attribute: str) -> _Types:
        key = (defined, attribute)
        if key not in self._attributes:
            self._attributes[key] = _NOTHING
            found: set[Class] = set()
            for ancestor in self._ancestors(defined):
                found |= self._own_attribute(ancestor, attribute)
            self._attributes[key] = frozenset(found)
        return self._attributes[key]

    def _own_attribute(self, defined: Class, attribute: str) -> set[Class]:
        method = defined.methods.get(attribute)
        if method is not None:
            return (
                set(self._named_classes(method.node.returns, defined.source)) if method.is_property else set()
            )
        found: set[Class] = set()
        for node in defined.node.body:
            if isinstance(node, ast.AnnAssign) and ast.unparse(node.target) == attribute:
                return set(self._named_classes(node.annotation, defined.source))
        for each in defined.methods.values():
            for statement in _own_nodes(each.node):
                for target, value, annotation in _attribute_bindings(statement):
                    if target == attribute:
                        found |= self._named_classes(annotation, defined.source)
                        if annotation is None and value is not None:
                            found |= self._types(value, each)
        return found

    def _types_of_call(self, call: ast.Call, within: Function) -> _Types:
        symbol = self._callee(call.func, within)
        if isinstance(symbol, Class):
            return frozenset({symbol})
        if isinstance(symbol, Function):
            return self._result(symbol)
        if isinstance(call.func, ast.Attribute):
            base = self._types(call.func.value, within)
            methods = list(self._methods(base, call.func.attr))
            if methods:
                return frozenset().union(*(self._result(each) for each in methods))
            if attribute := self._types_of_attribute(base, call.func.attr):
                return attribute | self._results_of_calling(attribute)
        handed = [*call.args, *(each.value for each in call.keywords)]
        found = self._union([call.func, *handed], within)
        for argument in handed:
            for target in self._functions_named(argument, within):
                found |= self._result(target)
        return found | self._results_of_calling(self._types(call.func, within))

    def _results_of_calling(self, types: _Types) -> _Types:
        return frozenset().union(*(self._result(each) for each in self._methods(types, "__call__")))

    def _result(self, function: Function) -> _Types:
        found = self._named_classes(function.node.returns, function.source)
        returned = function.node.returns
        if function.owner is not None and returned is not None and "Self" in ast.unparse(returned):
            found |= {function.owner}
        return found

    def _callee(self, expression: ast.expr, within: Function) -> _Symbol | None:
        if isinstance(expression, ast.Subscript):
            expression = expression.value
        if isinstance(expression, ast.Name):
            scope: Function | None = within
            while scope is not None:
                if expression.id in scope.inner:
                    return scope.inner[expression.id]
                if expression.id in self._variables_of(scope):
                    return None
                scope = scope.outer
        return self._symbol_of(expression, within.source.module)

    # Mentions

    def _stand_ins(self, defined: Class) -> list[Class]:
        """The classes whose methods run where this one is named."""
        found = self._implementations[defined]
        return [*found, defined] if not (defined.is_protocol and found) else found

    def _methods(self, types: _Types, name: str) -> Iterator[Function]:
        for each in sorted(types, key=lambda each: (each.source.module, each.name)):
            for able in self._stand_ins(each):
                for ancestor in self._ancestors(able):
                    if name in ancestor.methods:
                        yield ancestor.methods[name]
                        break

    def _functions_named(self, expression: ast.expr, within: Function) -> Iterator[Function]:
        symbol = self._callee(expression, within)
        if isinstance(symbol, Function):
            yield symbol
        elif isinstance(expression, ast.Attribute) and symbol is None:
            base = self._callee(expression.value, within)
            if isinstance(base, Class):  # Class.method
                yield from self._methods(frozenset({base}), expression.attr)
            else:
                yield from self._methods(self._types(expression.value, within), expression.attr)

    def _targets(self, node: ast.AST, within: Function) -> Iterator[Function]:
        if isinstance(node, ast.Name | ast.Attribute) and isinstance(node.ctx, ast.Load):
            yield from self._functions_named(node, within)
        if isinstance(node, ast.Call):
            symbol = self._callee(node.func, within)
            if isinstance(symbol, Class):
                yield from self._constructors(symbol)
            else:
                yield from self._methods(self._types(node.func, within), "__call__")
            if isinstance(node.func, ast.Attribute) and node.func.attr in _ENTERING:
                yield from self._methods(self._union(node.args, within), _ENTERING[node.func.attr])
        elif isinstance(node, ast.With | ast.AsyncWith):
            kind = "__a" if isinstance(node, ast.AsyncWith) else "__"
            for item in node.items:
                types = self._types(item.context_expr, within)
                yield from self._methods(types, f"{kind}enter__")
        elif isinstance(node, ast.For | ast.AsyncFor | ast.comprehension):
            is_async = isinstance(node, ast.AsyncFor) or getattr(node, "is_async", False)
            types = (
                self._types(node.iter, within)
                if isinstance(node.iter, ast.Name | ast.Attribute)
                else _NOTHING
            )
            for name in ("__aiter__", "__anext__") if is_async else ("__iter__", "__next__"):
                yield from self._methods(types, name)
        elif isinstance(node, ast.Subscript) and isinstance(node.ctx, ast.Load):
            yield from self._methods(self._types(node.value, within), "__getitem__")

    def _constructors(self, defined: Class) -> Iterator[Function]:
        for name in ("__init__", "__post_init__"):
            for ancestor in self._ancestors(defined):
                if name in ancestor.methods:
                    yield ancestor.methods[name]
                    break


def _matches(location: str, pattern: str) -> bool:
    return any(fnmatch(location, each) for each in pattern.split("|"))


def _field_names(defined: Class) -> Iterator[str]:
    """Fields of the class, and what `self.name = …` sets in any method."""
    for node in defined.node.body:
        if isinstance(node, ast.Assign | ast.AnnAssign):
            targets = node.targets if isinstance(node, ast.Assign) else [node.target]
            yield from (ast.unparse(each) for each in targets)
    for method in defined.methods.values():
        for statement in _own_nodes(method.node):
            for name, _, _ in _attribute_bindings(statement):
                yield name


def _fits(members: _Members, name: str, wanted: tuple[str, ...] | None) -> bool:
    """Whether a member of that name may stand for a Protocol's."""
    has = members.get(name, ("no such member",))
    if wanted is None or has is None:
        return has is None and wanted is None
    return has[: len(wanted)] == wanted


def _parent(outer: FunctionNode, inner: FunctionNode) -> bool:
    """Whether `inner` is defined in `outer` itself, not in a function within it."""
    return any(node is inner for node in _own_nodes(outer))


def _own_nodes(function: FunctionNode) -> Iterator[ast.AST]:
    """The nodes of a function's body in source order, without the bodies of functions defined in it."""
    waiting: list[ast.AST] = list(reversed(function.body))
    while waiting:
        node = waiting.pop()
        if isinstance(node, _FAILURE):
            continue
        yield node
        if not isinstance(node, FunctionNode | ast.ClassDef):
            waiting.extend(reversed([*ast.iter_child_nodes(node)]))


def _assigned(node: ast.stmt) -> Iterator[tuple[str, ast.expr]]:
    if isinstance(node, ast.Assign):
        for target in node.targets:
            if isinstance(target, ast.Name):
                yield target.id, node.value
    elif isinstance(node, ast.AnnAssign) and isinstance(node.target, ast.Name) and node.value is not None:
        yield node.target.id, node.value


_Binding = tuple[str, ast.expr | None, ast.expr | None]


def _pairs(target: ast.expr, value: ast.expr) -> Iterator[tuple[ast.expr, ast.expr]]:
    """Targets and what each is given; a tuple that cannot be taken apart is given to all."""
    if isinstance(target, ast.Tuple | ast.List):
        values = value.elts if isinstance(value, ast.Tuple) and len(value.elts) == len(target.elts) else None
        for number, each in enumerate(target.elts):
            yield from _pairs(each, values[number] if values else value)
    else:
        yield (target.value if isinstance(target, ast.Starred) else target), value


def _targets_and_values(node: ast.AST) -> Iterator[tuple[ast.expr, ast.expr | None, ast.expr | None]]:
    if isinstance(node, ast.Assign):
        for target in node.targets:
            for each, value in _pairs(target, node.value):
                yield each, value, None
    elif isinstance(node, ast.AnnAssign):
        yield node.target, node.value, node.annotation
    elif isinstance(node, ast.NamedExpr):
        yield node.target, node.value, None
    elif isinstance(node, ast.For | ast.AsyncFor | ast.comprehension):
        for each, value in _pairs(node.target, node.iter):
            yield each, value, None
    elif isinstance(node, ast.withitem) and node.optional_vars is not None:
        for each, value in _pairs(node.optional_vars, node.context_expr):
            yield each, value, None


def _bindings(node: ast.AST) -> Iterator[_Binding]:
    for target, value, annotation in _targets_and_values(node):
        if isinstance(target, ast.Name):
            yield target.id, value, annotation


def _attribute_bindings(node: ast.AST) -> Iterator[_Binding]:
    """`self.name = value`: (name, value, annotation)."""
    for target, value, annotation in _targets_and_values(node):
        if (
            isinstance(target, ast.Attribute)
            and isinstance(target.value, ast.Name)
            and target.value.id == "self"
        ):
            yield target.attr, value, annotation
