"""The pages of the site: those of docs/, with the results of their code, the README's sections and the reference."""

from __future__ import annotations

import multiprocessing
import re
import shutil
import tempfile
from concurrent.futures import ProcessPoolExecutor
from functools import partial
from pathlib import Path

import raregram as rg
from handbook import reference
from handbook.execute import execute
from raregram.counts import storage

ROOT = Path(__file__).resolve().parents[1]
DOCS = ROOT / "docs"
GENERATED = (*reference.PYTHON, "commands.md", "service.md")  # in `reference`, from the code itself
RUN = ("tutorials", "howto", "gallery.md")  # pages and folders whose code is run
OUTSIDE = {  # what the site has, and where it comes from
    "CONTRIBUTING.md": "contributing.md",
    "CHANGELOG.md": "changelog.md",
    "SECURITY.md": "security.md",
    "reliability/mutants.md": "mutants.md",
}
SECTION = re.compile(r"^<!-- README: (.*) -->$", re.MULTILINE)
LINK = re.compile(r"\]\(([^)\s#]+)(#[^)\s]*)?\)")


def write_site(folder: Path, only: list[str]) -> None:
    """Write all pages, or run only those that are named."""
    folder = folder.absolute()
    pages = folder / "pages"
    if not only:
        shutil.rmtree(pages, ignore_errors=True)
    (pages / "pictures").mkdir(parents=True, exist_ok=True)
    shutil.copytree(DOCS, pages, dirs_exist_ok=True, ignore=shutil.ignore_patterns("*.md", "*.json", "*.toml"))
    shutil.copy(Path(__file__).with_name("zensical.toml"), folder)
    names = [path.relative_to(DOCS).as_posix() for path in sorted(DOCS.rglob("*.md"))]
    run = [name for name in names if name.split("/")[0] in RUN and (not only or name in only)]
    run.sort(key=lambda name: name.startswith("howto"))  # long ones first
    with ProcessPoolExecutor(2, multiprocessing.get_context("spawn")) as pool:
        for name, seconds in zip(run, pool.map(partial(run_page, pages), run), strict=True):
            print(f"{name}: {seconds:.1f} s", flush=True)
    for name in names:
        if name.split("/")[0] not in RUN:
            write(pages, name, (DOCS / name).read_text("utf-8"), DOCS / name)
    for source, name in OUTSIDE.items():
        write(pages, name, (ROOT / source).read_text("utf-8"), ROOT / source)
    write_reference(pages)
    write_index(pages)


def run_page(pages: Path, name: str) -> float:
    """Run a page, write it, and return the seconds that it took."""
    source = (DOCS / name).read_text("utf-8")
    text, seconds = execute(DOCS / name, source, pages.absolute() / "pictures", f"{'../' * name.count('/')}pictures")
    write(pages, name, text, DOCS / name)
    return seconds


def write(pages: Path, name: str, text: str, source: Path) -> None:
    """Write a page: sections of the README where they are asked for, and links that lead within the site."""
    text = SECTION.sub(lambda wanted: readme_section(wanted[1]), text)
    where = {(ROOT / path).resolve(): page for path, page in OUTSIDE.items()}
    up = "../" * name.count("/")

    def follow(link: re.Match[str]) -> str:
        target = (source.parent / link[1]).resolve()
        if "://" in link[1] or not target.is_relative_to(ROOT):
            return link[0]
        inside = where.get(target) or (target.relative_to(DOCS).as_posix() if target.is_relative_to(DOCS) else None)
        return f"]({up}{inside}{link[2] or ''})" if inside else link[0]

    (pages / name).parent.mkdir(parents=True, exist_ok=True)
    (pages / name).write_text(LINK.sub(follow, text), "utf-8")


def readme_section(title: str) -> str:
    """Return a section of the README, without its heading."""
    text = (ROOT / "README.md").read_text("utf-8").replace("](docs/", "](")
    found = re.search(rf"^## {re.escape(title)}\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL)
    if found is None:
        raise SystemExit(f"the README has no section {title!r}")
    return found[1].strip()


def write_reference(pages: Path) -> None:
    """Write what is found out from the code itself."""
    with tempfile.TemporaryDirectory() as folder:
        model = Path(folder, "loc.rgm")
        rg.fit(rg.Counts.from_contexts(["lives in", "said that"], ["LOC", None]), "LOC").save(model)
        service = reference.service_page((str(model),))
    files = (DOCS / "reference" / "files.md").read_text("utf-8")
    files = files.replace("<!-- raregram.counts.storage -->", reference.docstring(storage).split("\n", 1)[1].strip())
    for name, text in {
        **{name: reference.python_page(*about) for name, about in reference.PYTHON.items()},
        "commands.md": reference.commands_page(),
        "service.md": service,
        "files.md": files,
    }.items():
        write(pages, f"reference/{name}", text, DOCS / "reference" / name)


def write_index(pages: Path) -> None:
    """Write `llms.txt`: each page with its title and first sentence, for programs that read the site."""
    lines = [
        "# raregram",
        "",
        "> Likelihood ratios of N-grams, above all of those that were seen rarely or never.",
        "",
    ]
    for path in sorted(pages.rglob("*.md")):
        text = path.read_text("utf-8")
        title = re.search(r"^# (.*)$", text, re.MULTILINE)
        about = first_sentence(text[title.end() :] if title else text)
        page = path.relative_to(pages).with_suffix("").as_posix()
        address = "" if page == "index" else page.removesuffix("/index") + "/"
        lines.append(f"- [{title[1] if title else page}]({address or './'}): {about}")
    (pages / "llms.txt").write_text("\n".join(lines) + "\n", "utf-8")


def first_sentence(text: str) -> str:
    """Return the first sentence of a page, without what marks it up."""
    paragraphs = (part for part in re.split(r"\n[ ]*\n", text.strip()) if re.match(r"[\w*`\[]", part))
    plain = re.sub(r"\[([^]]*)\]\([^)]*\)|[*`]", r"\1", next(paragraphs, ""))
    return re.split(r"(?<=[.:?]) ", " ".join(plain.split()))[0]
