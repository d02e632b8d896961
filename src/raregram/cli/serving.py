"""The command `serve`: the explorer page and the HTTP service."""

from __future__ import annotations

import os
import socket
import sys
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from raregram.cli.options import parse_bytes
from raregram.errors import FileError, MissingExtraError, ParameterError

if TYPE_CHECKING:
    from raregram.serve.options import ServeOptions

INSTALL = "the service needs FastAPI, uvicorn, orjson and prometheus_client: pip install 'raregram[serve]'"
QUIET: dict[str, Any] = {"log_config": None, "access_log": False, "server_header": False, "date_header": False}


def serve(
    model_files: Annotated[
        list[str], typer.Argument(help="Model files, as written by `fit`.", metavar="MODEL...", show_default=False)
    ],
    host: Annotated[
        str, typer.Option(help="The address to listen at; 0.0.0.0 for all of this machine.")
    ] = "127.0.0.1",
    port: Annotated[int, typer.Option(help="The port; 0 for any that is free.", min=0, max=65535)] = 8000,
    token: Annotated[
        str | None,
        typer.Option(
            help="A secret that requests must bring as bearer token. [default: none]",
            envvar="RAREGRAM_TOKEN",
            show_default=False,
        ),
    ] = None,
    workers: Annotated[int, typer.Option(help="Processes that answer.", min=1)] = 1,
    max_request: Annotated[str, typer.Option(help="How large a request may be.")] = "8MB",
    time_limit: Annotated[float, typer.Option(help="Seconds that a request may take.")] = 30.0,
    allow_host: Annotated[
        list[str] | None,
        typer.Option(help="A name by which the service may be called, beside localhost.", show_default=False),
    ] = None,
    browser: Annotated[bool, typer.Option("--browser/--no-browser", help="Whether to open the page.")] = True,
) -> None:
    """Open a page on models, and answer over HTTP.

    The page colours every gap of a text by how likely a name is there, and explains each.

    A model file that is replaced is read again. Texts are neither kept nor logged.

    Example: raregram serve loc.rgm per.rgm
    """
    if not time_limit > 0:
        raise ParameterError(f"--time-limit takes a number of seconds above 0, got {time_limit:g}")
    if token is not None and (not token or not token.isascii() or not token.isprintable() or " " in token):
        raise ParameterError("--token takes plain letters, digits and signs without spaces")
    try:
        import fastapi  # noqa: F401
        import orjson  # noqa: F401
        import prometheus_client  # noqa: F401
        import uvicorn  # noqa: F401
    except ImportError as error:
        raise MissingExtraError(INSTALL) from error
    from raregram.serve.options import ServeOptions

    given = ServeOptions(
        models=tuple(str(Path(path).absolute()) for path in model_files),
        token=token,
        max_bytes=parse_bytes(max_request, "max_request", "serve"),
        timeout=time_limit,
        hosts=tuple(allow_host or ()),
        workers=workers,
    )
    _run(given, host, port, browser and _has_screen())


def _run(options: ServeOptions, host: str, port: int, browser: bool) -> None:
    """Listen, print where, and serve until interrupted."""
    import uvicorn

    from raregram.serve.app import create_app, log_to_standard_error

    log_to_standard_error()
    app = create_app(options)  # raises here, and not in a worker, if a file is no model
    with _listen(host, port) as listener:
        port = listener.getsockname()[1]
        if options.workers == 1:
            _announce(options, host, port, browser)
            uvicorn.Server(uvicorn.Config(app, **QUIET)).run(sockets=[listener])
            return
    from raregram.serve.metrics import FOLDER

    options.to_environment()
    with tempfile.TemporaryDirectory(prefix="raregram-") as folder:
        os.environ[FOLDER] = folder
        _announce(options, host, port, browser)
        factory = "raregram.serve.app:from_environment"
        uvicorn.run(factory, factory=True, host=host, port=port, workers=options.workers, **QUIET)


def _listen(host: str, port: int) -> socket.socket:
    """Return a socket that listens at an address."""
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        return socket.create_server((host, port), family=family)
    except OSError as error:
        raise FileError(f"cannot listen at {host}, port {port}: {error.strerror}; try another --port") from None


def _announce(options: ServeOptions, host: str, port: int, browser: bool) -> None:
    """Print where the page is, and open it; a token goes behind the #, which no browser sends."""
    shown = f"[{host}]" if ":" in host else host
    shown = "127.0.0.1" if host in ("0.0.0.0", "::") else shown
    url = f"http://{shown}:{port}/"
    print(f"raregram: {url} (the service: {url}docs); stop it with Ctrl-C", file=sys.stderr, flush=True)
    if options.token is None and not _is_loopback(host):
        print("raregram: anyone who reaches this address may ask: --token keeps others out", file=sys.stderr)
    if browser:
        import webbrowser

        webbrowser.open(url if options.token is None else f"{url}#token={options.token}")


def _is_loopback(host: str) -> bool:
    import ipaddress

    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return host == "localhost"


def _has_screen() -> bool:
    """Whether a browser would open in a window of its own, for someone who sits there."""
    windows = sys.platform in ("darwin", "win32") or "DISPLAY" in os.environ or "WAYLAND_DISPLAY" in os.environ
    return windows and sys.stderr.isatty()


COMMANDS = (serve,)
