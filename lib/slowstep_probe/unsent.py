"""Requests that would change something elsewhere: they are not sent, and the program gets an answer as if they were.

A checkpoint that is uploaded to an object store would replace the one that the user's own run has left there, and each
of many trials would send the message that training has begun. Requests that read are sent.
"""

from __future__ import annotations

import re
import socket
from ipaddress import ip_address
from typing import Any
from urllib.parse import urlsplit
from weakref import WeakKeyDictionary

from slowstep_probe.late_imports import LateImports
from slowstep_probe.patches import Patches

CHANGING = ("PUT", "PATCH", "DELETE")
"""The methods of HTTP that change what lies at an address (RFC 9110)."""

TOLD = re.compile(
    r"hooks?\.|/(web)?hooks?/|webhook|slack\.com/api/(chat|files|reactions)|discord(app)?\.com/api|api\.telegram\.org|"
    r"/notif|ntfy|push(over|bullet|plus|deer)|api\.day\.app|ftqq\.com|hc-ping|(feishu|larksuite|dingtalk|weixin)|"
    r"sendgrid|mailgun|mailjet|postmark|twilio|chat\.googleapis|storage\.googleapis\.com/(upload|batch)",
    re.IGNORECASE,
)
"""Addresses at which POST leaves a message or a file. Other requests by POST are sent: many of them read."""

OF_THE_MACHINE = ("localhost", "metadata.google.internal")

MAILS = ("sendmail", "send_message")
"""The methods of `smtplib.SMTP` that send; they return the addresses that were refused."""

IN_PARTS = re.compile(r"(^|&)(uploads|uploadId)(=|&|$)")
"""What the query of a POST has that begins or ends an upload in parts to a store that speaks S3's language."""

AZURE = ".core.windows.net"
"""The end of the hosts that answer a PUT by 201, where other stores answer it by 200."""

BODY = '{"ok": true, "result": {"message_id": 0, "date": 0, "chat": {"id": 0, "type": "private"}}}'
"""What chats answer; Telegram's clients read the result."""

OF_PARTS = "<Result><UploadId>0</UploadId><Bucket>b</Bucket><Key>k</Key><Location>l</Location><ETag>0</ETag></Result>"

CHANGES = re.compile(
    "(Put|Post|Create|Copy|Complete|Abort|Upload|Delete|Remove|Publish|Send|Stop|Terminate|Reboot|Run|Update|Modify|"
    "Write|Restore|Tag|Untag|BatchWrite|BatchPut|Transact)[A-Z]"
)
"""The beginnings of the names of operations of AWS that change something."""

READS = ("CreateSession", "CreateToken")
"""Those that begin so, and only let a client read."""


class Unsent(str):
    """The answer of a service that was not asked: a text, as answers of the Hub are, with any attribute and item."""

    address = "https://huggingface.co/"

    def __getattr__(self, name: str) -> Unsent:
        if name.startswith("__"):
            raise AttributeError(name)
        return Unsent(self.removeprefix(self.address)) if name == "repo_id" else Unsent()

    def __getitem__(self, key: Any) -> Any:
        try:
            return super().__getitem__(key)
        except (IndexError, TypeError):
            return Unsent()

    def __call__(self, *_: Any, **__: Any) -> Unsent:
        return self


class Answer(dict[str, Any]):
    """The same as a mapping, with any key. What is counted in it (`FailedRecordCount`) is nothing."""

    def __missing__(self, key: str) -> Any:
        return 0 if key.endswith("Count") else Unsent()


def attach(patches: Patches, late: LateImports) -> None:
    """Begin to send nothing that changes something."""
    _Connections(patches, late)
    late.on("httpx", lambda it: _httpx(it, patches))
    late.on("smtplib", lambda it: [patches.around(it.SMTP, name, lambda *_, **__: {}) for name in MAILS])
    late.on("botocore.client", lambda it: patches.around(it.BaseClient, "_make_api_call", _operation))
    late.on("aiobotocore.client", lambda it: patches.around(it.AioBaseClient, "_make_api_call", _operation))


def is_change(method: str, url: str) -> bool:
    """Return whether a request changes something on another machine."""
    try:
        parts = urlsplit(url)
        host = parts.hostname or ""
    except ValueError:
        return False
    if host in OF_THE_MACHINE or _is_near(host):
        return False
    method = method.upper()
    told = TOLD.search(f"{host}{parts.path}") or IN_PARTS.search(parts.query)
    return method in CHANGING or (method == "POST" and told is not None)


def _is_near(host: str) -> bool:
    """Return whether an address leads to this machine, or to what its provider tells it (169.254.169.254)."""
    try:
        address = ip_address(host)
    except ValueError:
        return False
    return address.is_loopback or address.is_link_local


class _Connections:
    """Connections of `http.client`, by which urllib, requests and what is built upon them send."""

    def __init__(self, patches: Patches, late: LateImports) -> None:
        self._answered: WeakKeyDictionary[Any, tuple[socket.socket, socket.socket]] = WeakKeyDictionary()
        """Those whose request is not sent, each with what it reads its answer from, and the other end of that."""
        late.on("http.client", lambda it: patches.around(it.HTTPConnection, "putrequest", self._begins))
        late.on("http.client", lambda it: patches.around(it.HTTPConnection, "send", self._sends))
        pool = "urllib3.connectionpool"
        late.on(pool, lambda it: patches.around(it.HTTPConnectionPool, "_make_request", self._of_pool))

    def _of_pool(
        self, original: Any, pool: Any, connection: Any, method: str, url: str, *args: Any, **kwargs: Any
    ) -> Any:
        """Let a connection of urllib3 be none: for https it would greet the server before it knows its request."""
        if self._answers(connection, method, url):
            connection.is_verified = True
        return original(pool, connection, method, url, *args, **kwargs)

    def _begins(self, original: Any, connection: Any, method: str, url: str, *args: Any, **kwargs: Any) -> Any:
        result = original(connection, method, url, *args, **kwargs)
        self._answered.pop(connection, None)
        self._answers(connection, method, url)
        return result

    def _answers(self, connection: Any, method: str, url: str) -> bool:
        """Let a connection read an answer that nobody sends, where a request would change something."""
        host = getattr(connection, "_tunnel_host", None) or connection.host
        address = url if re.match(r"\w+://", url) else f"http://{f'[{host}]' if ':' in host else host}{url}"
        if not is_change(method, address):
            return False
        if connection.sock is not None:
            connection.sock.close()
        connection.sock, other = socket.socketpair()
        other.sendall(_answer(method, address))
        self._answered[connection] = connection.sock, other
        return True

    def _sends(self, original: Any, connection: Any, data: Any) -> Any:
        own, _ = self._answered.get(connection, (None, None))
        # for another request it may have connected again, through a proxy
        return None if own is not None and connection.sock is own else original(connection, data)


def _status(method: str, host: str) -> str:
    """Return the status by which a server says that it has done what it was asked."""
    if method.upper() == "DELETE":
        return "204 No Content"
    return "201 Created" if method.upper() == "PUT" and host.endswith(AZURE) else "200 OK"


def _answer(method: str, address: str) -> bytes:
    """Return what a server says that has done what it was asked, or that waits for a file at an address."""
    parts = urlsplit(address)
    status = _status(method, parts.hostname or "")
    in_parts = method.upper() == "POST" and IN_PARTS.search(parts.query)
    body = "" if status.startswith("204") else OF_PARTS if in_parts else BODY
    return (
        f"HTTP/1.1 {status}\r\nContent-Type: application/{'xml' if in_parts else 'json'}\r\n"
        f'Content-Length: {len(body)}\r\nETag: "0"\r\nLocation: {address}\r\nConnection: close\r\n\r\n{body}'
    ).encode()


def _httpx(module: Any, patches: Patches) -> None:
    def answered(request: Any) -> Any:
        status = int(_status(request.method, request.url.host).split()[0])
        return module.Response(status, content=BODY.encode(), headers={"ETag": '"0"'}, request=request)

    def sends(original: Any, client: Any, request: Any, *args: Any, **kwargs: Any) -> Any:
        is_kept = is_change(request.method, str(request.url))
        return answered(request) if is_kept else original(client, request, *args, **kwargs)

    for kind in (module.Client, module.AsyncClient):
        patches.around(kind, "send", sends)


def _operation(original: Any, client: Any, name: str, *args: Any, **kwargs: Any) -> Any:
    """Call an operation of AWS, or of a store that speaks its language, that changes nothing."""
    if not CHANGES.match(name) or name in READS:
        return original(client, name, *args, **kwargs)
    return Answer(ResponseMetadata={"HTTPStatusCode": 200, "HTTPHeaders": {}, "RetryAttempts": 0})
