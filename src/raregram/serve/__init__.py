"""The explorer page and the HTTP service on fitted models. Extra `serve`.

`app.create_app` builds the application; `raregram serve` runs it. A request passes `limits` and reaches one of
`handlers`, which calls the models of the `registry`.
"""
