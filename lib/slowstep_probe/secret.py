"""Secrets among the values that a program is given. They are in no report and in no file that is made to be shared.

A record that must hold one, since it says how to train, can be read by its owner alone.
"""

from __future__ import annotations

import ast
import functools
import json
import os
import re
from collections.abc import Callable, Mapping, Sequence
from typing import Any, AnyStr

LAST = frozenset({"token", "key", "auth", "pwd", "pat", "pass", "bearer", "cookie", "cookies", "dsn"})
"""Words that name a secret where they end a name: `hub_token`, `WANDB_API_KEY`."""

ANYWHERE = re.compile(
    r"secret|password|passwd|passphrase|credential|"
    r"(?:access|api|auth|encryption|private|signing)key|"
    r"(?:access|api|auth|bot|hf|hub|git|github|gitlab|id|refresh|session|slack|user)token|"
    r"^(?:admin|db|ftp|my|mysql|pg|root|smtp|sql|ssh|user)pass$"
)
"""Parts of words that name one wherever they stand in a name: `PGPASSWORD`, `hubtoken`."""

SEVERAL = frozenset({"tokens", "keys"})
OF_ACCESS = frozenset(
    {"access", "api", "auth", "bot", "hf", "hub", "private", "refresh", "secret", "signing", "ssh", "user"}
)
"""Words of several secrets, and one of the words that stand before them then: the tokens of a text are none."""

VARIANTS = re.compile(r"\d+|read|write|ro|rw|b64|base64|pem|prod|dev|test|staging|old|new")
"""Words behind those that name a secret: `GITHUB_TOKEN_2`, `PRIVATE_KEY_B64`."""

OF_TEXTS = frozenset({"pad", "eos", "bos", "unk", "sep", "cls", "mask", "image", "special", "stop", "start", "end"})
"""Words before `token` with which it is one of a text."""

OF_DATA = frozenset(
    {"answer", "audio", "caption", "charges", "column", "dipole", "energy", "feature", "field", "force", "forces"}
    | {"foreign", "image", "input", "instruction", "label", "labels", "mask", "messages", "metric", "output", "primary"}
    | {"prompt", "property", "question", "response", "sort", "stress", "target", "text", "video", "virials"}
)
"""Words right before `key` with which it names a part of the data: `--energy_key REF_energy`."""

IN_URLS = (
    (("://",), r"(\b(?!docker|oci)\w[\w+.-]{0,20}://[^\s/:@]{0,100}:)[^\s/@]{1,200}(?=@)"),
    (("://",), r"(\b(?:git\+)?https?://)[^\s/:@]{20,200}(?=@)"),
)
"""Patterns for a user in a URL. Each stands behind short texts without which it can't match: they are sought first,
since a log may be long."""

BY_SHAPE = (
    (("hf_", "r8_", "npm_", "_v1_"), r"(\b(?-i:hf_|r8_|npm_|dop_v1_|wandb_v1_))\w{30,}"),
    (("ghp_", "gho_", "ghu_", "ghs_", "ghr_"), r"(\b(?-i:gh[opusr]_))\w{30,}"),
    (("github_pat_", "glpat-", "pypi-"), r"(\b(?-i:github_pat_|glpat-|pypi-))[\w-]{20,}"),
    (("sk-",), r"(\b(?-i:sk-))(?:(?:proj|svcacct|admin|or-v1|ant-\w{3,6})-[\w-]{20,}|[a-z0-9]{32,})"),
    (("akia", "asia"), r"(\b(?-i:AKIA|ASIA))(?-i:[A-Z0-9]{16})\b"),
    (("aiza", "ya29."), r"(\b(?-i:AIza|ya29\.))[\w-]{35,}"),
    (("xox", "xapp-"), r"(\b(?-i:xox[abeoprs]-|xapp-))[\w-]{10,}"),
    (("eyj",), r"(\b(?-i:eyJ))[\w-]{10,400}\.[\w-]{10,}\.[\w-]{10,}"),
    (("private key-",), r"(-----BEGIN [A-Z ]{0,30}PRIVATE KEY-----)[\w+/=\s]{20,}"),
    (("hooks.slack.com/",), r"(\bhooks\.slack\.com/\w{1,20}/)[\w/]{10,}"),
    (("/api/webhooks/", "/bot"), r"(/api/webhooks/\d{1,30}/|\bapi\.telegram\.org/bot)[\w:-]{20,}"),
)
"""Patterns for secrets that are known by how they begin, whatever name they have: of Hugging Face, Replicate, npm,
DigitalOcean, W&B, GitHub, GitLab, PyPI, OpenAI and its like, AWS, Google, Slack, JSON web tokens (RFC 7519), keys in
PEM (RFC 7468), and addresses at which whoever knows them may write."""

IN_QUERIES = (
    (
        ("=",),
        r"([?&](?:x-amz-(?:signature|credential|security-token)|x-goog-(?:signature|credential)|sig|signature|"
        r"(?:access_?)?token|(?:api_?)?key|auth|password|secret)=)[^&#\s'\"]{8,}",
    ),
)
"""Patterns for a secret in the query of a URL, as one has that is signed (AWS, Google, Azure)."""

IN_VALUES = (*IN_URLS, *IN_QUERIES, *BY_SHAPE)
"""Patterns for a secret within any text."""

IN_TEXTS = (
    *IN_VALUES,
    (("authori",), r"(\bauthorization['\"]?\s?[:=]\s?['\"]?(?:bearer|basic)\s{1,3})[\w.~+/=-]{8,}"),
    (("bearer",), r"(\bbearer\s{1,3})(?=[\w.~+/=-]{0,200}\d)[\w.~+/=-]{20,}"),
    (
        ("passw", "key"),
        r"(\b(?:password|passwd|accountkey|sharedaccesskey|api_?key)['\"]?\s?[=:]\s?['\"]?)"
        r"(?!/|(?:none|null|true|false|str|optional)\b)[^\s;&,()\[\]{}'\"]{3,200}(?![\w.(\[{])",
    ),
)
"""The secrets of a text by the words before them, in HTTP headers and behind `password=`."""

LONG = 8
"""The letters from which on a value that some secret variable of the environment has is taken for that secret."""

HELD_BACK = 1000
"""The most bytes of a line that has not ended which wait for the rest of it."""

HIDDEN = "***"


def is_secret(name: object, value: object) -> bool:
    """Return whether nobody else should read a value: a text, by its name or since a secret variable has it, or a PIN.

    A number is a secret where its name ends with a word that names nothing else. `token` may count those of a text.
    """
    if isinstance(value, int) and not isinstance(value, bool):
        return any(map(_is_named_anywhere, _words(str(name))[-1:]))
    if not isinstance(value, str) or not value:
        return False
    return _names_a_secret(str(name), value) or any(known in value for known in _known())


def cleaned(text: str) -> str:
    """Return a text, an error's say, with `***` in place of the secrets that are known or that it says to be some."""
    return _without(_known(), IN_TEXTS, text, str)


def shown_value(value: str) -> str:
    """Return a value that is no secret by its name, with `***` in place of the secrets in it.

    Words that say that one follows may mean anything in it. But it may be a mapping, in which each value has a name.
    """
    before, held = _nested_in(value)
    try:
        if held is not None and (shown := _json(masked("", held))) != _json(held):
            return before + shown
    except RecursionError:
        return before + HIDDEN
    return _without(_known(), IN_VALUES, value, str)


def _json(held: Any) -> str:
    return json.dumps(held, ensure_ascii=False, skipkeys=True, default=str)


def _nested_in(value: str) -> tuple[str, Any]:
    """Return the mapping or the list that a value is, as JSON or in Python's words, and the option before it, if any.

    None in place of what is neither.
    """
    found = re.fullmatch(r"(-{0,2}[\w.-]*=)?(\s{0,9}[\[{].{0,20000}[\]}]\s{0,9})", value, re.DOTALL)
    for read in (json.loads, ast.literal_eval) if found else ():
        try:
            return found[1] or "", read(found[2].strip())
        except (ValueError, SyntaxError, TypeError, MemoryError, RecursionError):
            continue
    return "", None


def know(secrets: Sequence[str]) -> None:
    """Know these secrets as well, wherever they are printed from now on: those of a command and its variables."""
    OF_COMMAND.update(one for one in secrets if len(one) >= LONG)


OF_COMMAND = set[str]()
"""The secrets that the command has which is run."""


def _without(
    known: Sequence[AnyStr], told: Sequence[tuple[Sequence[str], str]], text: AnyStr, kind: Callable[[str], AnyStr]
) -> AnyStr:
    """Return a text without the secrets that are `known`, and without those that stand behind what is `told`.

    `kind` makes a text of the same kind, of characters or of bytes.
    """
    for one in known:
        text = text.replace(one, kind(HIDDEN))
    small = text.lower()
    for needed, pattern in told:
        if any(kind(one) in small for one in needed):
            text = re.sub(kind(pattern), kind(rf"\1{HIDDEN}"), text, flags=re.IGNORECASE)
    return text


def secrets_of(words: Sequence[str], env: Mapping[str, str]) -> list[str]:
    """Return the secrets among the words of a command, and among the variables that it sets."""
    shown = hidden(words)
    options = [word for word, one in zip(words, shown, strict=True) if one == HIDDEN]
    options += [word.partition("=")[2] for word, one in zip(words, shown, strict=True) if one.endswith(f"={HIDDEN}")]
    return options + [value for name, value in env.items() if is_secret(name, value)]


def masked(name: object, value: Any, leave_out: bool = False) -> Any:
    """Return a value with `***` in place of secrets, also of those within lists, mappings and commands.

    What a mapping has of them by name can be left out instead.
    """
    if is_secret(name, value):
        return HIDDEN
    if isinstance(value, Mapping):
        kept = {key: one for key, one in value.items() if not (leave_out and _is_all_secret(key, one))}
        return {key: masked(key, one, leave_out) for key, one in kept.items()}
    if isinstance(value, (list, tuple)):
        is_command = all(isinstance(one, str) for one in value) and not _names_a_secret(str(name))
        return hidden(value) if is_command else [masked(name, one, leave_out) for one in value]
    return shown_value(value) if isinstance(value, str) else value


def _is_all_secret(name: object, value: Any) -> bool:
    """Return whether a value is a secret, or a list of nothing else."""
    if isinstance(value, list):
        return bool(value) and all(is_secret(name, one) for one in value) and _names_a_secret(str(name))
    return is_secret(name, value)


def without_secrets(values: Mapping[Any, Any]) -> dict[Any, Any]:
    """Return values by name without secrets, also within what is nested."""
    return masked("", values, leave_out=True)


def hidden(words: Sequence[str]) -> list[str]:
    """Return the words of a command, with `***` in place of each secret that follows its option."""
    shown: list[str] = []
    for before, word in zip(["", *words], words, strict=False):
        option, given, value = word.partition("=")
        if given and is_secret(option, value):
            shown.append(f"{option}={HIDDEN}")
        elif is_secret(before if before.startswith("-") and "=" not in before else "", word):
            shown.append(HIDDEN)
        else:
            shown.append(shown_value(word))
    return shown


def _words(name: str) -> list[str]:
    words = re.split(r"[^a-z0-9]+", re.sub(r"(?<=[a-z0-9])(?=[A-Z])", "_", name).lower())
    return [word for word in words if word]


def _names_a_secret(name: str, value: str = "") -> bool:
    """Return whether a name is that of a secret. Where it may also be a count, a number is none."""
    words = _words(name)
    if any(map(_is_named_anywhere, words)):
        return True
    while len(words) > 1 and VARIANTS.fullmatch(words[-1]):
        words.pop()
    *before, last = words or [""]
    last = last.rstrip("0123456789")
    if _is_number(value) or (last == "token" and OF_TEXTS & {*before}) or (last == "key" and OF_DATA & {*before[-1:]}):
        return False
    return last in LAST or (last in SEVERAL and bool(OF_ACCESS & {*before}))


def _is_number(text: str) -> bool:
    try:
        float(text)
    except ValueError:
        return False
    return True


def _is_named_anywhere(word: str) -> bool:
    return ANYWHERE.search(word) is not None


AT_FIRST = dict(os.environ)
"""The environment as it was given to the process; a program may empty its own."""


def _known() -> list[str]:
    """Return the values of the environment's variables that are secrets by their names. A path is none (`PWD`)."""
    return _known_in(tuple(os.environ.items()), frozenset(OF_COMMAND))


@functools.lru_cache(maxsize=1)
def _known_in(now: tuple[tuple[str, str], ...], also: frozenset[str]) -> list[str]:
    """Return them of an environment, of the first one, and `also` others. They are asked for of many texts."""
    every = {*AT_FIRST.items(), *now}
    named = {value for name, value in every if len(value) >= LONG and _names_a_secret(name, value)}
    return sorted((v for v in {*named, *also} if not (os.path.isabs(v) and os.path.exists(v))), key=len, reverse=True)


class Cleaner:
    """Cleans an output that comes in pieces: a secret may lie in two of them."""

    def __init__(self) -> None:
        self._held = b""
        self._known = [known.encode("utf-8", errors="surrogateescape") for known in _known()]

    def cleaned(self, text: bytes) -> bytes:
        """Return the text so far without secrets. What may be the beginning of one comes with the next piece.

        So does a line that has not ended, up to a length: the words before a secret are in its line.
        """
        text = self._held + text
        end = len(text) - max((_begun(text, known) for known in self._known), default=0)
        line = max(text.rfind(b"\n"), text.rfind(b"\r")) + 1
        end = min(end, line) if len(text) - line <= HELD_BACK else end
        for known in self._known:  # none is cut in two
            at = text.find(known, max(0, end - len(known) + 1))
            end = at if -1 < at < end < at + len(known) else end
        self._held = text[end:]
        return _without(self._known, IN_TEXTS, text[:end], str.encode)

    def rest(self) -> bytes:
        """Return what was held back once nothing more comes."""
        text, self._held = self._held, b""
        return _without(self._known, IN_TEXTS, text, str.encode)


def _begun(text: bytes, known: bytes) -> int:
    """Return how many bytes at the end of a text are the beginning of a secret."""
    return next((n for n in range(min(len(known) - 1, len(text)), 0, -1) if text.endswith(known[:n])), 0)
