"""Stand-off tags: the named entities of Reuters-21578 without its text, which may not be passed on with a package.

The files in `data/` say for every article which items are a LOC, a PER or an ORG, one as Stanford NER found them, the
tagger of the paper, and one as spaCy did. They were made by

    raregram tag "$(raregram fetch reuters)" --tagger stanford --out tagged.parquet
    python -m raregram.corpus.standoff tagged.parquet src/raregram/data/reuters-stanford.parquet

(or `spacy` instead of `stanford`), have the versions of the tagger in their metadata, and are joined with the text of
the corpus in the cache.
"""

from __future__ import annotations

import hashlib
import json
import sys
from importlib.resources import as_file, files
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from raregram import options
from raregram.corpus.fetch import fetch_corpus
from raregram.corpus.formats import read_documents
from raregram.corpus.tagging import METADATA_KEY, SPAN
from raregram.errors import FileError
from raregram.files import atomic_path

DIGESTS: dict[options.Tags, str] = {  # SHA-256 of the files
    "stanford": "5ba390469c552254f81c30217e5a150f7ab447b97d55f975e0516d6606910887",
    "spacy": "54e9bf35b7090dfeff4a58ad000c1a49c1971ede1b7ca958920be7a5d48a0ea7",
}
SCHEMA = pa.schema([("article", pa.int32()), ("start", pa.int16()), ("end", pa.int16()), ("label", pa.string())])


def tagged_reuters(tags: options.Tags = options.TAGS.default, progress: Any = lambda more: None) -> pa.Table:
    """Return the articles of Reuters-21578 in the cache with the shipped tags of a tagger: `id`, `text`, `spans`."""
    fetched = fetch_corpus("reuters", progress=progress)
    batches = list(read_documents(str(fetched.folder)))
    ids = pa.concat_arrays([batch.ids for batch in batches])
    found = load_tags(tags).combine_chunks()
    row = pc.index_in(found["article"], ids.cast(pa.int32()))  # (tags,) of the article
    if row.null_count:
        missing = set(found["article"].filter(row.is_null()).to_pylist())
        raise FileError(f"the corpus in {fetched.folder} lacks {len(missing)} articles, e.g. number {min(missing)}")
    found = found.take(np.argsort(row, kind="stable"))
    ends = np.cumsum(np.bincount(row, minlength=len(ids)), dtype=np.int32)  # (articles,)
    columns = [found[field.name].combine_chunks().cast(field.type) for field in SPAN]
    spans = pa.ListArray.from_arrays(
        np.append(np.int32(0), ends), pa.StructArray.from_arrays(columns, fields=list(SPAN))
    )
    return pa.table({"id": ids, "text": pa.concat_arrays([batch.texts for batch in batches]), "spans": spans})


def load_tags(tags: options.Tags = options.TAGS.default) -> pa.Table:
    """Return the shipped tags of a tagger: article, start, end, label."""
    options.TAGS.check(tags, "an experiment")
    with as_file(files("raregram") / "data" / f"reuters-{tags}.parquet") as path:
        content = path.read_bytes()
    if hashlib.sha256(content).hexdigest() != DIGESTS[tags]:
        raise FileError(f"the tags shipped with raregram, {path}, are damaged or were altered")
    with pq.ParquetFile(pa.BufferReader(content)) as file:
        return file.read()


def write_tags(tagged: Path, out: Path) -> None:
    """Take the spans out of a file of tagged articles."""
    with pq.ParquetFile(tagged) as file:
        table = file.read()
        about = json.loads(file.schema_arrow.metadata[METADATA_KEY])
    lists = table["spans"].combine_chunks()
    lengths = np.asarray(pc.list_value_length(lists))
    article = np.repeat(np.asarray(table["id"].cast(pa.int32())), lengths)
    spans = lists.flatten()
    columns = {"article": article, **{name: spans.field(name) for name in ("start", "end", "label")}}
    tags = pa.table(columns).cast(SCHEMA).sort_by([("article", "ascending"), ("start", "ascending")])
    with atomic_path(out) as temporary:
        pq.write_table(
            tags.replace_schema_metadata({METADATA_KEY: json.dumps(about)}),
            temporary,
            compression="zstd",
            compression_level=19,
        )


if __name__ == "__main__":
    write_tags(Path(sys.argv[1]), Path(sys.argv[2]))
