"""The reference: the Python interface from docstrings, the commands from their help, the service from OpenAPI."""

from __future__ import annotations

import dataclasses
import inspect
import re
from collections.abc import Iterable, Iterator
from importlib import import_module
from typing import Any

import typer

from raregram.models import ratios, selection

PYTHON = {  # the pages of the Python interface: a title, and modules
    "python.md": ("Python interface", ("raregram", "raregram.errors")),
    "equations.md": ("Equations and score functions", ("raregram.ratios", "raregram.selection")),
    "sklearn.md": ("scikit-learn", ("raregram.sklearn",)),
    "spark.md": ("Spark", ("raregram.spark",)),
}
STABLE = "What is not in this reference may change at any time ([Versions](../contributing.md#versions))."
SERVICE = """`raregram serve loc.rgm` starts it ([options](commands.md#serve)). A running service describes itself at
`/docs`, and as OpenAPI at `/openapi.json`. Requests and responses are JSON:

```sh
curl --json '{"contexts": ["she lives in", "he said that"]}' http://127.0.0.1:8000/api/score
```
"""
WIDTH = 96  # columns of a signature on one line
LONGEST_DEFAULT = 40


def python_page(title: str, modules: Iterable[str]) -> str:
    """Return a page of the Python interface."""
    parts = [f"# {title}\n\n{STABLE}\n"]
    for name in modules:
        module = import_module(
            name.replace("raregram.ratios", ratios.__name__).replace("raregram.selection", selection.__name__)
        )
        parts.append(f"## {name}\n\n{docstring(module)}\n")
        for public, thing in public_names(module):
            parts += describe(public, thing)
    return "\n".join(parts)


def public_names(module: Any) -> Iterator[tuple[str, Any]]:
    """Yield what a module offers and defines or passes on, functions before classes."""
    names = getattr(module, "__all__", None) or [
        name for name, thing in vars(module).items()
        if not name.startswith("_") and getattr(thing, "__module__", None) == module.__name__ and callable(thing)
    ]  # fmt: skip
    things = [(name, getattr(module, name)) for name in names if not name.startswith("_")]
    callables = [(name, thing) for name, thing in things if inspect.isroutine(thing) or inspect.isclass(thing)]
    yield from sorted(callables, key=lambda pair: inspect.isclass(pair[1]))


def describe(name: str, thing: Any) -> list[str]:
    """Return the parts of the page about a function, or about a class and its methods."""
    parts = [f"### {name}\n\n{signature(name, thing)}\n{docstring(thing)}\n"]
    if inspect.isclass(thing) and not issubclass(thing, BaseException):
        for member, value in vars(thing).items():
            function = (
                getattr(value, "__func__", None) or getattr(value, "fget", None) or getattr(value, "func", value)
            )
            if not member.startswith("_") and inspect.isfunction(function) and function.__doc__:
                kind = (
                    "" if callable(getattr(value, "__func__", value)) and not hasattr(value, "func") else "property"
                )
                head = f"```python\n{member}  # a property\n```\n" if kind else signature(member, function)
                parts.append(f"#### {name}.{member}\n\n{head}\n{docstring(function)}\n")
    return parts


def signature(name: str, thing: Any) -> str:
    """Return how something is called, one argument a line where there are many."""
    if inspect.isclass(thing) and issubclass(thing, BaseException):
        return f"```python\nclass {name}({', '.join(base.__name__ for base in thing.__bases__)})\n```\n"
    found = inspect.signature(thing)
    arguments, bare = [], True
    for parameter in found.parameters.values():
        if parameter.kind is parameter.KEYWORD_ONLY and bare:
            arguments.append("*")
        bare = bare and parameter.kind not in (parameter.KEYWORD_ONLY, parameter.VAR_POSITIONAL)
        if parameter.name not in ("self", "cls"):
            arguments.append(argument(parameter))
    returns = (
        "" if inspect.isclass(thing) or found.return_annotation is found.empty else f" -> {found.return_annotation}"
    )
    line = f"{name}({', '.join(arguments)}){returns}"
    if len(line) > WIDTH:
        line = f"{name}(\n" + "".join(f"    {each},\n" for each in arguments) + f"){returns}"
    return f"```python\n{line}\n```\n"


def argument(parameter: inspect.Parameter) -> str:
    """Return an argument with its type and default."""
    stars = {"VAR_POSITIONAL": "*", "VAR_KEYWORD": "**"}.get(parameter.kind.name, "")
    annotation = "" if parameter.annotation is parameter.empty else f": {parameter.annotation}"
    if parameter.default is parameter.empty:
        return f"{stars}{parameter.name}{annotation}"
    default = repr(parameter.default)
    default = "..." if callable(parameter.default) or len(default) > LONGEST_DEFAULT else default
    return f"{parameter.name}{annotation} = {default}"


def docstring(thing: Any) -> str:
    """Return a docstring as Markdown: arguments as a list; examples, tables and drawings as blocks."""
    text = inspect.getdoc(thing) or ""
    if dataclasses.is_dataclass(thing) and text.startswith(f"{getattr(thing, '__name__', '')}("):
        return ""  # one that Python made up
    parts: list[str] = []
    for paragraph in re.split(r"\n[ ]*\n", text):
        section = re.match(r"(Args|Returns|Raises|Attributes|Yields):\n", paragraph)
        if section:
            parts += [
                f"**{'Arguments' if section[1] == 'Args' else section[1]}**",
                listed(paragraph[section.end() :]),
            ]
        elif paragraph.startswith(">>>"):
            parts.append(f"```python\n{paragraph}\n```")
        elif re.match(r"====", paragraph):
            parts.append(as_table(paragraph))
        elif re.match(r"    ", paragraph):
            drawn = inspect.cleandoc(paragraph)
            language = "python" if drawn.startswith("import ") else "text"
            before = f"```{language}\n"
            if parts and parts[-1].startswith(("```python\nimport", "```text")):  # one drawing of several paragraphs
                before = parts.pop().removesuffix("\n```") + "\n\n"
            parts.append(f"{before}{drawn}\n```")
        else:
            parts.append(paragraph)
    return "\n\n".join(parts) + "\n"


def as_table(text: str) -> str:
    r"""Return a simple table of reStructuredText in Markdown; a line without a first cell goes on.

    >>> print(as_table("====  ====\na     b\n====  ====\nx, y  one\n      two\n====  ===="))
    | a | b |
    |---|---|
    | `x, y` | one two |
    """
    rule, *lines = text.splitlines()[:-1]
    starts = [found.start() for found in re.finditer(r"=+", rule)]
    cells = [[line[a:b].strip() for a, b in zip(starts, [*starts[1:], None], strict=True)] for line in lines]
    head, cells = (cells[0], cells[2:]) if rule in lines else ([""] * len(starts), cells)
    rows: list[list[str]] = []
    for first, *rest in cells:
        if first:
            rows.append([f"`{first}`", *rest])
        else:
            rows[-1] = [f"{before} {more}".strip() for before, more in zip(rows[-1], ["", *rest], strict=True)]
    lines = [f"| {' | '.join(cell.replace('|', '&#124;') for cell in row)} |" for row in (head, *rows)]
    return "\n".join([lines[0], "|---" * len(starts) + "|", *lines[1:]])


def listed(lines: str) -> str:
    """Return the arguments of a docstring as a list, and any other section as text."""
    text = inspect.cleandoc(lines)
    return re.sub(r"^(\w+): ", r"- `\1`: ", text, flags=re.MULTILINE).replace("\n    ", "\n  ")


def commands_page() -> str:
    """Return the page of the command line: the help of every command."""
    from raregram.cli import app

    parts = ["# Command line\n\nWhat each command says with `--help`.\n"]
    for name, command in typer.main.get_group(app).commands.items():
        context = typer.Context(command, info_name=f"raregram {name}", max_content_width=84, terminal_width=84)
        parts.append(f"## {name}\n\n```text\n{command.get_help(context)}\n```\n")
    return "\n".join(parts)


def service_page(models: tuple[str, ...]) -> str:
    """Return the page of the HTTP service, from its OpenAPI description."""
    from raregram.serve.app import create_app

    api = create_app(models).openapi()
    parts = [f"# HTTP service\n\n{api['info'].get('description', '')}\n\n{SERVICE}\n"]
    for path, methods in api["paths"].items():
        for method, operation in methods.items():
            parts.append(f"## {method.upper()} {path}\n\n{operation.get('description') or operation['summary']}\n")
            sides = (operation.get("requestBody", {}), operation["responses"].get("200", {}))
            for title, side in zip(("Request", "Response"), sides, strict=True):
                schema = side.get("content", {}).get("application/json", {}).get("schema", {})
                parts.append(fields(f"**{title}**", resolve(schema, api)))
    parts.append("## Objects\n")
    named = list(dict.fromkeys(re.findall(r"\[(\w+)\]\(#", "\n".join(parts))))
    for name in named:  # the list grows by what these refer to
        shown = fields(f"### {name}", api["components"]["schemas"][name])
        named += [each for each in re.findall(r"\[(\w+)\]\(#", shown) if each not in named]
        parts.append(shown)
    return "\n".join(parts)


def fields(title: str, schema: Any) -> str:
    """Return a table of the fields of a request, a response or an object."""
    if not schema.get("properties"):
        return ""
    rows = [
        f"| `{name}` | {kind(value)} | {value.get('description', '').replace('|', '&#124;')} |"
        for name, value in schema["properties"].items()
    ]
    head = [title, "", schema.get("description", ""), "", "| field | type | meaning |", "|---|---|---|"]
    return "\n".join([*head, *rows, ""])


def resolve(schema: Any, api: Any) -> Any:
    """Follow a reference within a description."""
    name = schema.get("$ref", "").rpartition("/")[2]
    return api["components"]["schemas"][name] if name else schema


def kind(schema: Any) -> str:
    """Return the type of a field in a few words."""
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return f"[{name}](#{name.lower()})"
    if "anyOf" in schema:
        return " or ".join(dict.fromkeys(map(kind, schema["anyOf"])))
    if "enum" in schema:
        return ", ".join(f"`{value}`" for value in schema["enum"])
    if schema.get("type") == "array":
        return f"list of {kind(schema.get('items', {}))}"
    if isinstance(schema.get("additionalProperties"), dict):
        return f"object: {kind(schema['additionalProperties'])} by name"
    return str(schema.get("type", "any"))
