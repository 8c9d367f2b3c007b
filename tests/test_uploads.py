"""A survey and a trial send nothing outside, whatever the program says, and the program goes on."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

from slowstep_probe import unsent
from slowstep_probe.patches import Patches

PROGRAM = """
import socket, sys
connect = socket.socket.connect
def refused(one, *where):
    if getattr(one, "family", None) == socket.AF_UNIX:  # a library's own process on this machine
        return connect(one, *where)
    print("SENT")
    raise OSError("no network in this test")
from slowstep_probe import uploads
from slowstep_probe.late_imports import LateImports
from slowstep_probe.patches import Patches
EARLY
patches, late = Patches(), LateImports()
uploads.attach(patches, late)
socket.socket.connect = socket.getaddrinfo = refused
BODY
print("went on")
patches.remove()
late.remove()
"""

UPLOADS = {
    "Hugging Face": """
        from huggingface_hub import create_repo, upload_folder
        name = create_repo("somebody/something", token="t").repo_id
        assert name == "somebody/something"
        assert create_repo(name, token="t").split("/")[-1] == "something"
        upload_folder(repo_id=name, folder_path=".", token="t", run_as_future=True).result()
        from huggingface_hub import HfApi
        api = HfApi(token="t")
        api.create_branch("somebody/something", branch="b")
        api.upload_file(path_or_fileobj=b"x", path_in_repo="x", repo_id="somebody/something")
        from transformers import LlamaConfig, LlamaForCausalLM
        shape = dict(hidden_size=8, intermediate_size=8, num_hidden_layers=1, num_attention_heads=1, vocab_size=8)
        LlamaForCausalLM(LlamaConfig(**shape)).push_to_hub("somebody/something", token="t")
        LlamaConfig(**shape).push_to_hub("somebody/something", token="t")
        import datasets
        data = datasets.Dataset.from_dict({"x": [1, 2]})
        data.push_to_hub("somebody/something", token="t")
        datasets.DatasetDict(train=data).push_to_hub("somebody/something", token="t")""",
    "a tracker": """
        import mlflow, os
        before = mlflow.get_tracking_uri()
        os.environ["MLFLOW_TRACKING_URI"] = "http://tracker.of.the.team:5000"
        os.environ["MLFLOW_REGISTRY_URI"] = "http://registry.of.the.team:5000"
        assert mlflow.get_tracking_uri() == mlflow.get_registry_uri() == before
        assert mlflow.MlflowClient().tracking_uri == before
        with mlflow.start_run():
            mlflow.log_metric("loss", 1.0)
        assert mlflow.MlflowClient(before).search_runs(["0"])
        del os.environ["MLFLOW_TRACKING_URI"], os.environ["MLFLOW_REGISTRY_URI"]
        for address in ("http://tracker.of.the.team:5000", "postgresql://of.the.team/db", "mysql+pymysql://it/db",
                        "databricks", "databricks://profile", "uc:http://of.the.team"):
            mlflow.set_tracking_uri(address)
            assert mlflow.get_tracking_uri() == before
            assert mlflow.MlflowClient(address).tracking_uri == before
        mlflow.set_registry_uri("https://registry.of.the.team")
        assert mlflow.get_registry_uri() == before
        mlflow.set_tracking_uri("sqlite:///here.db")
        assert mlflow.get_tracking_uri() == "sqlite:///here.db" """,
    "a tracker named before it is imported": """
        import os
        os.environ["MLFLOW_TRACKING_URI"] = "http://tracker.of.the.team:5000"
        import mlflow
        assert mlflow.get_tracking_uri().startswith("sqlite:")""",
    "a tracker that is told to send": """
        import wandb
        run = wandb.init(project="p", mode="online")
        assert run.settings.mode == "offline"
        run.finish()""",
    "messages and files by HTTP": """
        import http.client
        import urllib.request
        import requests
        import httpx
        assert requests.post("https://hooks.slack.com/services/T/B/x", json={"text": "begun"}).json()["ok"]
        with requests.Session() as session:
            for _ in range(2):
                assert session.put("https://store.of.the.team/last.pt", data=b"x" * 10**6).status_code == 200
            assert session.delete("https://store.of.the.team/old.pt").status_code == 204
        hook = urllib.request.Request("https://discord.com/api/webhooks/1/x", data=b"{}")
        assert b'"ok": true' in urllib.request.urlopen(hook).read()
        connection = http.client.HTTPConnection("store.of.the.team")
        connection.request("PUT", "/x", iter([b"a", b"b"]))
        assert connection.getresponse().status == 200
        assert httpx.post("https://api.telegram.org/bot1/sendMessage", json={}).json()["result"]["chat"]
        assert requests.put("https://mine.blob.core.windows.net/c/x", data=b"x").status_code == 201
        assert b"<UploadId>" in requests.post("http://minio.of.the.team:9000/b/k?uploads=").content
        import asyncio
        assert asyncio.run(httpx.AsyncClient().put("https://store.of.the.team/x", content=b"x")).status_code == 200""",
    "a mail": """
        import smtplib
        from email.message import EmailMessage
        mail = EmailMessage()
        mail["From"], mail["To"], mail["Subject"] = "a@b.c", "d@e.f", "done"
        assert smtplib.SMTP().send_message(mail) == {}""",
    "files of an object store": """
        import fsspec
        import fsspec.asyn
        def sends(*_, **__): print("SENT")
        async def awaited(*_, **__): print("SENT")
        class Store(fsspec.AbstractFileSystem):
            protocol = ("s3", "s3a")
            _open = rm_file = mkdir = put_file = pipe_file = cp_file = sends
        class Awaited(fsspec.asyn.AsyncFileSystem):
            protocol = "gs"
            _rm_file = _mkdir = _put_file = _pipe_file = _cp_file = awaited
        for store in (Store(), Awaited()):
            with store.open("bucket/last.pt", "wb") as file:
                file.write(b"x")
            store.pipe_file("bucket/x", b"x")
            store.put_file("nowhere", "bucket/x")
            store.rm("bucket/x", recursive=True)
            store.mkdir("bucket/y")
            with store.transaction, store.open("bucket/last.pt", "wb") as file:
                file.write(b"x")
            with store.transaction, store.open("bucket/log.txt", "w") as file:
                file.write("x")
        here = fsspec.filesystem("file")
        here.pipe_file("here.bin", b"x")
        assert open("here.bin", "rb").read() == b"x" """,
}


CASES = {
    f"{name}-imported {'before' if early else 'later'}": (body, early)
    for name, body in UPLOADS.items()
    for early in ([False] if "before" in name else [False, True])
}


@pytest.mark.parametrize(("body", "early"), CASES.values(), ids=CASES)
def test_nothing_is_sent(body: str, early: bool, tmp_path: Path) -> None:
    """Also where a warm interpreter has imported the libraries before."""
    body = textwrap.dedent(body)
    imports = [line for line in body.splitlines() if line.startswith(("import", "from"))]
    text = PROGRAM.replace("EARLY", "\n".join(imports) if early else "").replace("BODY", body)
    done = subprocess.run([sys.executable, "-c", text], cwd=tmp_path, capture_output=True, text=True, check=False)

    assert done.stdout.splitlines()[-1:] == ["went on"], done.stderr[-1500:]
    assert "SENT" not in done.stdout


def test_operations_of_aws_that_change_something_are_answered() -> None:
    """Names of the API references of S3, EC2 and STS. What reads is sent, and what is awaited stays so."""
    asked = []

    class Client:
        def _make_api_call(self, name: str, given: object) -> str:
            asked.append(name)
            return name

    class Awaited:
        async def _make_api_call(self, name: str, given: object) -> str:
            asked.append(name)
            return name

    patches = Patches()
    for kind in (Client, Awaited):
        patches.around(kind, "_make_api_call", unsent._operation)
    changing = ["PutObject", "CreateMultipartUpload", "UploadPart", "DeleteObjects", "TerminateInstances", "SendEmail"]
    reading = ["GetObject", "ListObjectsV2", "HeadObject", "AssumeRole", "GetCallerIdentity", "CreateSession"]
    for name in changing + reading:
        Client()._make_api_call(name, {})
        asyncio.run(Awaited()._make_api_call(name, {}))
    answer = Client()._make_api_call("CreateMultipartUpload", {})
    patches.remove()

    assert [name for name in reading for _ in range(2)] == asked
    assert (answer["UploadId"], answer["ResponseMetadata"]["HTTPStatusCode"]) == ("", 200)


@pytest.mark.parametrize(
    ("method", "url", "changes"),
    [
        ("GET", "https://hooks.slack.com/x", False),
        ("POST", "https://api.of.the.team/v1/completions", False),
        ("POST", "https://slack.com/api/chat.postMessage", True),
        ("put", "https://store.of.the.team/x", True),
        ("PUT", "http://169.254.169.254/latest/api/token", False),
        ("PUT", "http://127.0.0.1:9000/x", False),
        ("PUT", "http://[::1]:9000/x", False),
        ("PUT", "http://[broken", False),
    ],
)
def test_a_request_is_kept_if_it_changes_something_on_another_machine(method: str, url: str, changes: bool) -> None:
    """A model that is asked by POST answers; what the provider of a machine tells its clients is asked by PUT."""
    assert changes == unsent.is_change(method, url)
