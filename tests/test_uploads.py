"""A survey and a trial send nothing outside, whatever the program says, and the program goes on."""

from __future__ import annotations

import subprocess
import sys
import textwrap
from pathlib import Path

import pytest

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
