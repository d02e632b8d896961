"""The site: `make docs` runs the pages that have code, writes the reference, and lets Zensical lay it out.

`python -m handbook build/docs` writes the pages and the configuration; they are built from there.
"""
