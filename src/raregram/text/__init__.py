"""Text into items, items into codes, words into shapes."""
