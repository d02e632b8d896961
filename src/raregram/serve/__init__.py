"""The explorer page and the HTTP service on fitted models. Extra `serve`.

`app.create_app` builds the application; `raregram serve` runs it. A request passes `guard` (limits and headers),
goes by the table in `routes` to one of `handlers`, which calls the models of the `registry`, and is counted by
`metrics`.
"""
