"""Output: descriptions, heat maps, files of scores, progress."""
