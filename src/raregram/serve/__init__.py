"""The explorer page and the HTTP service on fitted models. Extra `serve`.

`app.create_app` puts everything together; `raregram serve` runs it. A request passes `guard` (limits and headers),
is routed by `app` to one of `handlers`, which asks the models of the `registry`, and is counted by `metrics`.
"""
