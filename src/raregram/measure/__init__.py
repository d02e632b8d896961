"""Scores, rankings and how good they are; the experiment of the paper."""
