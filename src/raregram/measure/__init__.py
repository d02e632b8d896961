"""Scores, rankings and how good they are; the settings that are best."""
