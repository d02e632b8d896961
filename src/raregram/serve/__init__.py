"""The explorer page and the HTTP service on fitted models. Extra `serve`.

`app.create_app` puts everything together; `raregram serve` runs it. A request passes `guard` (who may ask, and how
much), `app` (which question it is), `answers` (what the models say) and ends in `metrics`.
"""
