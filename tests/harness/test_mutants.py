"""The mutation check's list of survivors speaks of the source as it is, and its comparison works."""

from __future__ import annotations

import ast
from pathlib import Path

import pytest

from reliability import mutants
from reliability.mutants import Mutant

pytestmark = pytest.mark.harness
SOURCE = Path(__file__).parents[2] / "src" / "raregram"
LIST = """# Survivors

## Equivalent

Some reason.

```diff
@ counts.table.Counts.load
- a = f(1)
+ a = f(2)
- a = f(1)
+ a = f()
```

## Speed

```diff
@ models.ratios.mle
- d
+ e
```
"""


def test_the_list_of_survivors_is_read_with_its_reasons():
    assert mutants.listed_mutants(LIST) == {
        Mutant("counts.table.Counts.load", "a = f(1)", "a = f(2)"): "Equivalent",
        Mutant("counts.table.Counts.load", "a = f(1)", "a = f()"): "Equivalent",
        Mutant("models.ratios.mle", "d", "e"): "Speed",
    }


def sources_of(function):
    """The sources of all functions of a module that a dotted name may mean."""
    names = function.split(".")
    split = next(k for k in range(len(names), 0, -1) if (SOURCE / "/".join(names[:k])).with_suffix(".py").exists())
    source = (SOURCE / "/".join(names[:split])).with_suffix(".py").read_text()
    found = (node for node in ast.walk(ast.parse(source)) if isinstance(node, ast.FunctionDef))
    return [" ".join(ast.get_source_segment(source, node).split()) for node in found if node.name == names[-1]]


def test_every_listed_line_is_still_in_the_source():
    listed = mutants.listed_mutants(mutants.LISTED.read_text())
    assert listed
    for mutant in listed:
        assert any(" ".join(mutant.line.split()) in source for source in sources_of(mutant.function)), mutant
        assert mutant.changed != mutant.line


def test_a_mutant_is_the_line_that_differs():
    kept = ["def x_f__mutmut_orig(a):", "    b = a + 1", "    return b"]
    mutated = ["def x_f__mutmut_2(a):", "    b = a - 1", "    return b"]
    both = {"x_f__mutmut_orig": kept, "x_f__mutmut_2": mutated}
    changed = mutants.changed_line("raregram.models.ratios.x_f__mutmut_2", both)
    assert changed == Mutant("models.ratios.f", "b = a + 1", "b = a - 1")
