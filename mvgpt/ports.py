"""A port to serve a page on, and waiting until the page answers."""

import errno
import os
import socket
import time
from collections.abc import Callable
from contextlib import suppress
from http.client import HTTPException
from urllib.request import ProxyHandler, build_opener

from mvgpt.errors import InputError

TRIED = 100  # ports, from the usual one on
PAUSE, PATIENCE = 0.05, 30.0  # seconds between two questions, and until no more are asked


def port_number(text: str) -> int:
    """The port that a user typed; an InputError where it is none."""
    if not (text.isascii() and text.isdigit() and 1 <= int(text) <= 65535):
        raise InputError(f"{text!r} is not a port; --port takes a whole number from 1 to 65535")
    return int(text)


def choose_port(host: str, asked: int | None, usual: int) -> int:
    """The port that was asked for, else the first free one from the usual one on.

    A busy one that was asked for, or a host that cannot be served at, is an InputError.
    """
    if asked is not None:
        if busy(host, asked):
            raise InputError(f"port {asked} of {host} is busy; give --port another")
        return asked
    ports = range(usual, usual + TRIED)
    free = next((port for port in ports if not busy(host, port)), None)
    if free is None:
        raise InputError(f"ports {ports[0]} to {ports[-1]} of {host} are busy; give --port another")
    return free


def busy(host: str, port: int) -> bool:
    """Whether something listens there; where we may not listen at all is an InputError.

    Binding alone does not tell: a name like localhost can stand for an IPv6 address as well, which
    a browser tries first, and some systems let two programs listen at one port.
    """
    if not host:
        raise InputError("the host to serve at is empty; --host takes a name, such as localhost")
    try:
        with socket.socket(socket.AF_INET) as probe:
            if os.name == "posix":  # a port that was in use until just now is free
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind((host, port))
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            return True
        raise InputError(f"cannot serve at {host}, port {port}: {error.strerror}") from None
    with suppress(OSError):
        socket.create_connection((host, port), timeout=1).close()
        return True
    return False


def is_public(host: str) -> bool:
    """Whether other machines may reach what is served at the host."""
    return not socket.gethostbyname(host).startswith("127.")


def wait_for_answer(url: str, answer: bytes, alive: Callable[[], bool]) -> None:
    """Return when the URL gives that answer; an InputError when it does not in time.

    Proxies that are set in the environment are passed over: none knows our localhost.
    """
    ask, give_up = build_opener(ProxyHandler({})).open, time.monotonic() + PATIENCE
    while alive() and time.monotonic() < give_up:
        with suppress(OSError, HTTPException):
            if ask(url, timeout=5).read() == answer:
                return
        time.sleep(PAUSE)
    raise InputError(f"the page's server does not answer at {url}; give --port another")
