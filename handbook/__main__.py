"""Write the pages of the site and its configuration: `python -m handbook FOLDER [PAGE ...]`."""

from __future__ import annotations

import sys
from pathlib import Path

from handbook.pages import write_site

if __name__ == "__main__":
    write_site(Path(sys.argv[1]), sys.argv[2:])
