"""The mutation check's own workings, and its list of survivors: that it speaks of the source as it is."""

from __future__ import annotations

import ast
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
sys.path.insert(0, str(ROOT / "reliability"))

import mutants  # noqa: E402
from mutants import Mutant, Tally  # noqa: E402

LIST = """# Survivors

## Equivalent

Some reason.

```diff
@ counts.Counts.load
- a = f(1)
+ a = f(2)
- a = f(1)
+ a = f()
@ ratios.mle
- b
+ c
```

## Speed

```diff
@ model.Model.numbers
- d
+ e
```
"""


def test_the_list_of_survivors_is_read_with_its_reasons():
    assert mutants.listed_mutants(LIST) == {
        Mutant("counts.Counts.load", "a = f(1)", "a = f(2)"): "Equivalent",
        Mutant("counts.Counts.load", "a = f(1)", "a = f()"): "Equivalent",
        Mutant("ratios.mle", "b", "c"): "Equivalent",
        Mutant("model.Model.numbers", "d", "e"): "Speed",
    }


def functions(module):
    """Return {name: source} of a module, methods by Class.name."""
    source = (ROOT / "src" / "raregram" / f"{module}.py").read_text()
    found = {}
    for node in ast.parse(source).body:
        nested = node.body if isinstance(node, ast.ClassDef) else [node]
        prefix = f"{node.name}." if isinstance(node, ast.ClassDef) else ""
        for function in nested:
            if isinstance(function, ast.FunctionDef):
                found[prefix + function.name] = " ".join(ast.get_source_segment(source, function).split())
    return found


@pytest.mark.parametrize("module", mutants.TESTS)
def test_every_listed_line_is_still_in_the_source(module):
    known = functions(module)
    for mutant in mutants.listed_mutants(mutants.LISTED.read_text()):
        where, _, name = mutant.function.partition(".")
        if where == module:
            assert " ".join(mutant.line.split()) in known[name], mutant
            assert mutant.changed != mutant.line


def test_properties_mean_the_same_without_their_decorator():
    source = """
from functools import cached_property

class Square:
    side = 3

    @property
    def area(self):
        \"\"\"A property.\"\"\"
        return self.side**2

    @cached_property
    def drawn(self):
        return object()

    @classmethod
    def make(cls):
        return cls()
"""
    changed = mutants.without_property_decorators(source)
    assert "@property" not in changed
    assert "@cached_property" not in changed
    assert "@classmethod" in changed
    names = {}
    exec(changed, names)
    square = names["Square"].make()
    assert square.area == 9
    assert square.drawn is square.drawn
    assert names["Square"].area.__doc__ == "A property."


def test_a_mutant_is_the_line_that_differs():
    kept = ["def x_f__mutmut_orig(a):", "    b = a + 1", "    return b"]
    mutated = ["def x_f__mutmut_2(a):", "    b = a - 1", "    return b"]
    both = {"x_f__mutmut_orig": kept, "x_f__mutmut_2": mutated}
    assert mutants.changed_line("raregram.models.ratios.x_f__mutmut_2", both) == Mutant(
        "ratios.f", "b = a + 1", "b = a - 1"
    )


def test_mutants_are_counted_by_what_became_of_them():
    codes = {"a": 1, "b": 3, "c": 0, "d": 33, "e": 36, "f": -24, "g": None}
    assert mutants.tally(codes) == Tally(mutants=7, killed=2, timeouts=2, survived=1, untested=2)
