"""The report, a pure function of the results: tables as CSV, figures, and one self-contained page by jinja2."""

from __future__ import annotations

import csv
import io
import json
from importlib.resources import files
from pathlib import Path
from typing import Any

from raregram.drawing import heat_map
from raregram.errors import MissingExtraError
from raregram.experiment.figures import Figure, figures
from raregram.experiment.tables import (
    Results,
    Table,
    chosen,
    corpus_name,
    findings,
    findings_table,
    ours,
    show,
    tables,
)
from raregram.files import atomic_path, write_errors_named
from raregram.show.plotting import import_matplotlib

# The sections of the page, in order; those of tables have the title of the table.
SECTIONS = {
    "glance": "Results at a glance",
    "table-2": None,
    "findings": "The paper's findings, checked on this data",
    "backoff": "The back-off estimator and the paper's best",
    "figure-1": "F1 by number of selected items",
    "figure-2": "Recall by rank",
    "figure-3": "F1 by model size",
    "chosen": None,
    "bands": None,
    "calibration": None,
    "figure-4": "Predicted and real ratios",
    "figure-5": "Targets and others above each ratio",
    "figure-6": "Ratios before and after the best monotone map",
    "tables-3-4": None,
    "table-1": None,
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


def check_installed() -> None:
    """Raise if a library is missing that a report needs."""
    import_matplotlib()
    import_jinja2()


def write_report(results: Results, folder: Path) -> Path:
    """Write tables as CSV, figures as SVG and PNG, and the page; return its path. Same results, same bytes."""
    shown, drawn = tables(results), figures(results)
    contents = {f"tables/{table.name}.csv": as_csv(table).encode() for table in shown}
    contents |= {f"figures/{figure.name}.svg": figure.svg.encode() for figure in drawn}
    contents |= {f"figures/{figure.name}.png": figure.png for figure in drawn}
    contents["report.html"] = page(results, shown, drawn).encode()
    for name, content in contents.items():
        path = folder / name
        with write_errors_named(path):
            path.parent.mkdir(parents=True, exist_ok=True)
        with atomic_path(path) as temporary:
            temporary.write_bytes(content)
    return folder / "report.html"


def as_csv(table: Table) -> str:
    """Return a table as CSV, with plain numbers."""
    text = io.StringIO()
    csv.writer(text, lineterminator="\n").writerows([table.columns, *table.rows])
    return text.getvalue()


def page(results: Results, shown: list[Table], drawn: list[Figure]) -> str:
    """Return the report as HTML that needs nothing from outside."""
    jinja2 = import_jinja2()
    environment = jinja2.Environment(autoescape=True, undefined=jinja2.StrictUndefined, trim_blocks=True)
    environment.filters["show"] = show
    template = environment.from_string(files(__package__).joinpath("page.html.j2").read_text(encoding="utf-8"))
    coloured = articles(results)
    by_name = {table.name: table for table in shown}
    sections = {name: title or by_name[name].title for name, title in SECTIONS.items()}
    if not coloured:
        del sections["articles"]
    rendered: str = template.render(
        sections=sections,
        config=results["config"],
        corpus=corpus_name(results["config"]),
        tables=by_name,
        figures={figure.name: figure for figure in drawn},
        findings=findings_table(findings(results)),
        ours=findings_table(ours(results)),
        headline=[_headline(results, target) for target in results["config"]["targets"]],
        articles=coloured,
        about=json.dumps({name: results[name] for name in ("config", "versions", "machine", "inputs")}, indent=2),
    )
    return rendered


def _headline(results: Results, target: str) -> dict[str, Any]:
    """Return the facts of a card: the best models of a target, and the Cllr of back-off, plain and calibrated."""
    families = {
        "backoff": "backoff",
        "selective": "selective",
        "all_used": "all used lam*",
        "plain": "all used lam=0",
    }
    drawn = results["targets"][target]["calibration"]
    measured = [drawn[name]["measures"]["all"] for name in ("backoff", "backoff, calibrated") if name in drawn]
    return {
        "target": target,
        **{name: chosen(results, target, family) for name, family in families.items()},
        "costs": [measures for measures in measured if isinstance(measures["cllr"], float)],
    }


def articles(results: Results) -> list[str]:
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
