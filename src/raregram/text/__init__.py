"""Text into items, items into numbers, words into shapes."""
