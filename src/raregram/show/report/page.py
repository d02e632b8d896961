"""Results, tables and figures -> one self-contained page. The one place that imports jinja2."""

from __future__ import annotations

import json
from collections.abc import Sequence
from importlib.resources import files
from typing import Any

from raregram.drawing import heat_map
from raregram.errors import MissingExtraError
from raregram.show.report.figures import Figure
from raregram.show.report.tables import Table, chosen, corpus_name, findings, ours

# The sections of the page; those that are a table or a figure have its name, and its title.
SECTIONS = {
    "glance": "Results at a glance",
    "table-2": "",
    "findings": "The paper's findings, checked on this data",
    "backoff": "The back-off estimator and the paper's best",
    "figure-1": "",
    "figure-2": "",
    "figure-3": "",
    "chosen": "",
    "bands": "",
    "calibration": "",
    "figure-4": "",
    "figure-5": "",
    "figure-6": "",
    "tables-3-4": "",
    "table-1": "",
    "articles": "Test articles with the score of every gap",
    "about": "Configuration, versions, machine and inputs",
}


def import_jinja2() -> Any:
    """Return the module `jinja2`, or say how to install it."""
    try:
        import jinja2
    except ImportError as error:
        raise MissingExtraError("the report needs jinja2: pip install 'raregram[report]'") from error
    return jinja2


def page(results: dict[str, Any], tables: Sequence[Table], figures: Sequence[Figure]) -> str:
    """Return the report as HTML that needs nothing from outside."""
    jinja2 = import_jinja2()
    environment = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True)
    environment.filters["show"] = show
    template = environment.from_string((files("raregram.show.report") / "page.html.j2").read_text(encoding="utf-8"))
    drawn = articles(results)
    titles = {table.name: table.title for table in tables} | {figure.name: figure.title for figure in figures}
    titles |= {name: title for name, title in SECTIONS.items() if title and (name != "articles" or drawn)}
    rendered: str = template.render(
        sections={name: titles[name] for name in SECTIONS if name in titles},
        config=results["config"],
        corpus=corpus_name(results["config"]),
        tables={table.name: table for table in tables},
        figures={figure.name: figure for figure in figures},
        findings=findings(results),
        ours=ours(results),
        headline=[
            {
                "target": target,
                "backoff": chosen(results, target, "backoff"),
                "selective": chosen(results, target, "selective"),
                "all_used": chosen(results, target, "all used lam*"),
                "plain": chosen(results, target, "all used lam=0"),
                "costs": _costs(results["targets"][target]),
            }
            for target in results["config"]["targets"]
        ],
        articles=drawn,
        about=json.dumps({name: results[name] for name in ("config", "versions", "machine", "inputs")}, indent=2),
    )
    return rendered


def articles(results: dict[str, Any]) -> list[str]:
    """Draw the heat maps of some test documents, with what the corpus says is there."""
    targets, between = results["config"]["targets"], " " if results["config"]["kind"] == "words" else ""
    return [
        heat_map(
            article["items"],
            {target: results["targets"][target]["articles"][index] for target in targets},
            {int(boundary): name for boundary, name in article["names"].items()},
            between,
        )
        for index, article in enumerate(results["articles"])
    ]


def show(value: Any) -> str:
    """Write a value of a table for people: numbers with three digits, and whole ones with all of them.

    >>> [show(value) for value in (None, "LOC", 394850, 0.3, 0.09326, 1e-05, 30.18, 4.45e8)]
    ['', 'LOC', '394,850', '0.300', '0.0933', '1e-05', '30.2', '445,000,000']
    """
    if value is None:
        return ""
    if isinstance(value, bool | str):
        return str(value)
    if isinstance(value, int):
        return f"{value:,}"
    if 0.1 <= abs(value) < 1:
        return f"{value:.3f}"
    return f"{value:,.0f}" if 1000 <= abs(value) < 1e15 else f"{value:.3g}"


def _costs(result: dict[str, Any]) -> list[dict[str, Any]]:
    """Return how right the ratios of the back-off estimator are, and then when calibrated; what is known of it."""
    drawn = result["calibration"]
    found = [drawn[name]["measures"]["all"] for name in ("backoff", "backoff, calibrated") if name in drawn]
    return [measures for measures in found if isinstance(measures["cllr"], float)]
