"""What a person sees of a comparison: a page, a plot, a table in the terminal, files."""
