"""The command `serve`: the explorer page and the HTTP service."""

from __future__ import annotations

import ipaddress
import logging
import os
import socket
import sys
from typing import Annotated

from raregram.cli.options import argument, option, parse_bytes
from raregram.cli.printing import say
from raregram.errors import FileError, MissingExtraError
from raregram.remote import local_path

INSTALL = "the service needs FastAPI, uvicorn, orjson and prometheus_client: pip install 'raregram[serve]'"


def serve(
    model_files: Annotated[list[str], argument("Model files, as written by `fit`.", metavar="MODEL...")],
    host: Annotated[str, option("The address to listen on; 0.0.0.0 for all interfaces.")] = "127.0.0.1",
    port: Annotated[int, option("The port; 0 for any free one.", min=0, max=65535)] = 8000,
    token: Annotated[
        str | None,
        option("A secret that requests must send as bearer token. [default: none]", envvar="RAREGRAM_TOKEN"),
    ] = None,
    max_request: Annotated[str, option("Maximum size of a request.")] = "8MB",
    time_limit: Annotated[float, option("Timeout of a request in seconds.")] = 30.0,
    allow_host: Annotated[
        list[str] | None, option("Host name under which the service may be called, beside localhost.")
    ] = None,
    browser: Annotated[bool, option("Open the page in a browser.", "--browser/--no-browser")] = True,
) -> None:
    """Start the explorer page and the HTTP service for models.

    The page colours every gap of a text by how likely a name is there, and explains each.

    A model file that is replaced is loaded again. Texts are neither stored nor logged.

    Example: raregram serve loc.rgm per.rgm
    """
    try:
        import uvicorn

        from raregram.serve.app import create_app
        from raregram.serve.limits import Limits
    except ImportError as error:
        raise MissingExtraError(INSTALL) from error
    max_bytes = parse_bytes(max_request, "max_request", "serve")
    limits = Limits(token, tuple(allow_host or ()), max_bytes, time_limit)
    logging.basicConfig(format="raregram: %(message)s", level=logging.WARNING)
    logging.getLogger("raregram.serve").setLevel(logging.INFO)  # reloads of models
    app = create_app([local_path(path).absolute() for path in model_files], limits)
    config = uvicorn.Config(app, log_config=None, access_log=False, server_header=False, date_header=False)
    with _listen(host, port) as listener:
        _announce(listener, host, token, browser)
        uvicorn.Server(config).run(sockets=[listener])


def _listen(host: str, port: int) -> socket.socket:
    """Return a socket that listens on an address."""
    try:
        family = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)[0][0]
        return socket.create_server((host, port), family=family)
    except OSError as error:
        raise FileError(f"cannot listen at {host}, port {port}: {error.strerror}; try another --port") from None


def _announce(listener: socket.socket, host: str, token: str | None, browser: bool) -> None:
    """Print the address of the page, and open it in a browser if there is a screen."""
    address, port = listener.getsockname()[:2]
    shown = "127.0.0.1" if host in ("0.0.0.0", "::") else f"[{host}]" if ":" in host else host
    url = f"http://{shown}:{port}/"
    say(f"raregram: {url} (API: {url}docs); stop it with Ctrl-C")
    if token is None and not ipaddress.ip_address(address).is_loopback:
        say("raregram: anyone who can reach this address can use the service: --token restricts it")
    screen = sys.platform in ("darwin", "win32") or "DISPLAY" in os.environ or "WAYLAND_DISPLAY" in os.environ
    if browser and screen and sys.stderr.isatty():
        import webbrowser

        # No browser sends what follows the #, so the token stays out of logs.
        webbrowser.open(url if token is None else f"{url}#token={token}")


COMMANDS = (serve,)
