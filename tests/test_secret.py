"""What a program was told in confidence is in no record and no report."""

from __future__ import annotations

import os
import stat
import sys
from dataclasses import replace
from pathlib import Path

import nbformat
import pytest
import yaml

from simulated_measurer import SimulatedMeasurer, Truth
from slowstep.batch import execute_notebook
from slowstep.batch.forked_kernel import private_sockets
from slowstep.command.resolve import resolve
from slowstep.factors import Arm
from slowstep.final.choice import choose
from slowstep.final.files import write_files
from slowstep.final.script import script
from slowstep.investigation import open_lab
from slowstep.launch.surveyed_run import write
from slowstep.launch.surveyor import SurveyOrder, survey
from slowstep.report.cards import card
from slowstep.report.tables import settings_table
from slowstep.settings import LEVEL_SECTIONS, Settings, load
from slowstep.settings.run import training_defaults
from slowstep_probe.processes.log import CappedLog
from slowstep_probe.secret import cleaned, hidden, is_secret, know, masked, secrets_of, shown_value, without_secrets
from slowstep_probe.survey.early_environment import mattering
from slowstep_probe.trial.failure import raised

ROOT = Path(__file__).resolve().parents[1]


@pytest.mark.parametrize(
    ("name", "secret"),
    [
        ("hub_token", True),
        ("HF_TOKEN", True),
        ("--wandb-api-key", True),
        ("wandbApiKey", True),
        ("db_password", True),
        ("aws_secret_access_key", True),
        ("auth", True),
        ("max_tokens", False),
        ("pad_token", False),
        ("eos-token", False),
        ("token_dropout", False),
        ("keys", False),
        *(
            (name, True)
            for name in ("PGPASSWORD", "DB_PASS", "--hubtoken", "API_KEY_1", "HF_TOKEN_READ", "OPENAI_KEY2")
        ),
        *((name, True) for name in ("API_KEYS", "ACCESS_TOKENS", "PASSWORDS", "PRIVATE_KEY_B64", "COOKIE", "bearer")),
        *((name, False) for name in ("padtoken", "token_read_ahead", "passes", "compass", "bypass", "num_keys")),
        *((name, True) for name in ("PGPASS", "ENCRYPTIONKEY", "accesskey", "PRIVATE_KEY_PEM")),
        ("--energy_key", False),
        ("text-key", False),
        ("text_api_key", True),
        ("monkey", False),
        ("", False),
    ],
)
def test_secrets_are_known_by_their_names(name: str, secret: bool) -> None:
    assert is_secret(name, "hf_abcdefgh") is secret
    assert not is_secret(name, "")


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("postgres://bob:hunter2@db/x failed", "postgres://bob:***@db/x failed"),
        ("https://hub.example:8080/a@b", "https://hub.example:8080/a@b"),
        ("Authorization: Bearer abcdefgh12345678", "Authorization: Bearer ***"),
        ("AccountName=a;AccountKey=abcd+/==;Suffix=b", "AccountName=a;AccountKey=***;Suffix=b"),
        ("401 for hf_abcdefgh1", "401 for ***"),
        ("Namespace(api_key='sk-12345', lr=0.1)", "Namespace(api_key='***', lr=0.1)"),
        ('{"password": "hunter2"}', '{"password": "***"}'),
        ("https://ghp_abcdefghijklmnopqrst@github.com/x", "https://***@github.com/x"),
        ("docker://ubuntu:22.04@sha256:0", "docker://ubuntu:22.04@sha256:0"),
        ("password: str = None, api_key=os.environ['X']", "password: str = None, api_key=os.environ['X']"),
        ("a basic configuration of bearer authentication", "a basic configuration of bearer authentication"),
    ],
)
def test_secrets_in_a_text_are_known_by_their_place(text: str, shown: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Or since a variable of the environment has them."""
    monkeypatch.setenv("HF_TOKEN", "hf_abcdefgh1")

    assert shown == cleaned(text)
    assert f"RuntimeError: {shown}" == raised(RuntimeError(text))


LETTERS = "a1B2c3D4e5F6" * 4

SHAPES = [
    *(("hf_", LETTERS[:34]), ("ghp_", LETTERS[:36]), ("github_pat_", LETTERS), ("glpat-", LETTERS[:20])),
    *(("sk-", LETTERS), ("sk-", f"proj-{LETTERS}"), ("sk-", f"ant-api03-{LETTERS}"), ("r8_", LETTERS[:37])),
    *(("AKIA", LETTERS[:16].upper()), ("AIza", LETTERS[:35]), ("xoxb-", f"123-{LETTERS}"), ("wandb_v1_", LETTERS)),
    *(
        ("eyJ", f"hbGciOiJIUzI1NiJ9.{LETTERS}.{LETTERS}"),
        ("-----BEGIN RSA PRIVATE KEY-----", f"\n{LETTERS}\n{LETTERS}\n"),
    ),
    *(("https://hooks.slack.com/services/", "T1/B2/abcdefgh"), ("https://discord.com/api/webhooks/12/", LETTERS)),
    *(("https://a.example/x?n=1&X-Amz-Signature=", LETTERS), ("https://a.example/x?token=", "abcdefgh")),
]


@pytest.mark.parametrize(("begins", "goes_on"), SHAPES)
@pytest.mark.parametrize("where", ["an argument", "a text", "a log"])
def test_secrets_are_known_by_how_they_begin(begins: str, goes_on: str, where: str, tmp_path: Path) -> None:
    """Whoever hands one over without a name for it, or prints it, finds its beginning alone."""
    given = begins + goes_on
    if where == "an argument":
        command = resolve([sys.executable, __file__, given], tmp_path, {})
        assert command.has_secrets
        assert goes_on not in str(command)
        assert hidden([given]) == [f"{begins}***"]
        assert goes_on not in str(masked("prompt", {"x": [given]}))
    elif where == "a text":
        assert cleaned(f"no access by '{given}', sorry") == f"no access by '{begins}***', sorry"
    else:
        for size in (10_000, *([7] if "\n" not in given else [])):
            log, output = CappedLog(str(tmp_path / "x.log")), f"no access by {given}\n".encode()
            for begin in range(0, len(output), size):
                log.write(output[begin : begin + size])
            log.close()
            assert goes_on not in (tmp_path / "x.log").read_text()


@pytest.mark.parametrize(
    "text",
    [
        *("sk-learn-and-torch-with-a-long-name", "asia_pacific_region_of_the_data", "hf_home", "task-4a5b6c7d8e9f"),
        *("eyJ", "https://a.example/x?epoch=12345678&tokens=12345678", "gho_st", "data/api/webhooks/x", "/bot/trained"),
        "models--meta--Llama/snapshots/0e9e39f249a16976918f6564b8830bc894c89659",
    ],
)
def test_words_that_only_look_like_secrets_are_shown(text: str) -> None:
    assert text == cleaned(text)
    assert [text] == hidden([text])


def test_a_value_that_is_no_text_keeps_its_words() -> None:
    """Only what stands for a user in a URL is hidden in it; the path of a store may have a sign that URLs have."""
    given = {"url": "postgres://bob:hunter2@db/x", "data": "abfss://training-data-container@account.net/x"}
    given |= {"prompt": "the password: hello", "urls": ("postgres://bob:hunter2@db/x",)}
    found = without_secrets(given)

    assert "postgres://bob:***@db/x" == found["url"]
    assert (given["data"], given["prompt"]) == (found["data"], found["prompt"])
    assert "hunter2" not in str(found)
    assert ["--db", "postgres://bob:***@db/x"] == hidden(["--db", given["url"]])


@pytest.mark.parametrize("size", [1, 3, 7, 100])
def test_a_log_holds_no_secret_of_the_environment(size: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However the output is cut into pieces, and what only begins like one is kept."""
    monkeypatch.setenv("WANDB_API_KEY", "abcdefsecret123456")
    monkeypatch.setenv("HF_TOKEN", "abcdefse")
    output = b"key abcdefsecret123456 and abcdef, abcdefseabcdefsecret123456\n50 %|abc"
    log = CappedLog(str(tmp_path / "x.log"))
    for begin in range(0, len(output), size):
        log.write(output[begin : begin + size])
    log.close()

    assert "key *** and abcdef, ******\n50 %|abc" == (tmp_path / "x.log").read_text()


def test_what_a_command_says_in_confidence_is_known(monkeypatch: pytest.MonkeyPatch) -> None:
    """Wherever its program prints it."""
    found = secrets_of(
        ["A=1", "python", "train.py", "--api-key", "sk-12345678", "--hub-token=hf_12345"], {"HF_TOKEN": "x"}
    )

    assert ["sk-12345678", "hf_12345", "x"] == found
    monkeypatch.setattr("slowstep_probe.secret.OF_COMMAND", set())
    know(found)
    assert "key ***" == cleaned("key sk-12345678")


@pytest.mark.parametrize(
    ("value", "shown"),
    [
        ('{"api_key": "x1y2z3", "lr": [1, {"password": "p"}]}', '{"api_key": "***", "lr": [1, {"password": "***"}]}'),
        ("{'hf_token': 'x1y2z3', 'lr': 1e-4}", '{"hf_token": "***", "lr": 0.0001}'),
        ("{'lr': 1e-4}", "{'lr': 1e-4}"),
        ("[1, 2", "[1, 2"),
        ("[" * 5000 + "]" * 5000, None),
    ],
)
def test_a_mapping_within_a_value_is_looked_into(value: str, shown: str | None) -> None:
    """A whole configuration may be given as one word; what is nested without end ends nothing."""
    found = [shown_value(value), *hidden(["--config", value])[1:], hidden([f"--config={value}"])[0]]

    assert shown is None or [shown, shown, f"--config={shown}"] == found


def test_a_number_may_be_a_count() -> None:
    """Where a name can mean both."""
    assert not is_secret("--num-token", "512")
    assert not is_secret("--low-pass", "0.5")
    assert not is_secret("ntoken", 33278)
    assert is_secret("--db-password", "512")


def test_a_number_is_secret_where_its_name_can_mean_nothing_else() -> None:
    given = {"db_password": 1234, "max_tokens": 7, "key": 3, "password_length": 12, "use_password": True}

    assert masked("", given) == given | {"db_password": "***"}


def test_a_value_of_a_secret_variable_is_one_under_any_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MY_API_KEY", "0123456789ab")
    monkeypatch.setenv("PIN_KEY", "1")
    monkeypatch.setenv("PWD", str(ROOT))  # the folder in which a shell stands

    assert not is_secret("data", f"{ROOT}/data")
    assert is_secret("url", "https://user:0123456789ab@host")
    assert not is_secret("lr", "0.001")
    assert without_secrets({"a": {"b": "0123456789ab", "c": 1}, "lr": 0.1}) == {"a": {"c": 1}, "lr": 0.1}
    assert hidden(["train.py", "--key", "abc", "--token=x", "--lr", "1", "0123456789ab", "--keys", "a"]) == [
        *("train.py", "--key", "***", "--token=***", "--lr", "1", "***", "--keys", "a")
    ]
    assert mattering({"HF_TOKEN": "secret", "HF_HOME": "here", "TOKENIZERS_PARALLELISM": "false"}) == {
        "HF_HOME": "here",
        "TOKENIZERS_PARALLELISM": "false",
    }
    assert mattering({"MLFLOW_TRACKING_URI": "https://me:of_the_server@host", "HF_ENDPOINT": "https://host"}) == {
        "HF_ENDPOINT": "https://host"
    }


def test_variables_of_a_library_are_known_by_its_whole_name() -> None:
    """LDAP's are not the linker's: what is none of training's stands in no record, and is told to no trial."""
    own = ["LD_PRELOAD", "PYTHONPATH", "TORCHINDUCTOR_CACHE_DIR", "CUDAHOSTCXX", "HF_HOME", "PL_GLOBAL_SEED", "MALLOC_"]
    others = ["LDAP_BIND_DN", "PLAN_ID", "HFT_ACCOUNT", "COMETS", "OMPI_COMM_WORLD_RANK", "MY_HF_HOME"]

    assert own == list(mattering(dict.fromkeys([*own, *others], "1")))


def test_what_is_nested_is_hidden_and_left_out_alike() -> None:
    """In mappings within lists, in lists of secrets, in commands; what is no secret stays."""
    given = {
        "a": [{"api_key": "x", "lr": 1}],
        "tokens": ["b"],
        "api_key": ["x", "y"],
        "run": ["f", "--key", "x"],
        "n": [1],
    }

    assert masked("", given) == {
        "a": [{"api_key": "***", "lr": 1}],
        "tokens": ["b"],
        "api_key": ["***", "***"],
        "run": ["f", "--key", "***"],
        "n": [1],
    }
    left = masked("", given) | {"a": [{"lr": 1}]}
    assert without_secrets(given) == {key: value for key, value in left.items() if key != "api_key"}


def test_a_secret_of_a_parameter_file_is_in_no_report_and_no_file_to_share(tmp_path: Path) -> None:
    """Neither in the table of settings, nor on the card of an arm, nor in final/, whose files still say the rest."""
    given = {"hub_token": "hf_abcdefgh", "gradient_checkpointing_kwargs": {"api_key": "of_a_part"}}
    loaded = load(ROOT / "params" / "quick.yaml", ["training_arguments.hub_token=hf_abcdefgh"])
    settings = replace(loaded.settings, training_arguments=loaded.settings.training_arguments | given)
    settings = replace(settings, **{key: {} for key in LEVEL_SECTIONS})
    measurer = SimulatedMeasurer(Truth(gain=lambda arm, purpose: 0.0), settings.budget)
    lab = open_lab(replace(loaded, settings=settings), tmp_path, "90_final_config", measurer)
    written = {path.name: path.read_text(encoding="utf-8") for path in write_files(lab, choose(lab))}
    table = settings_table(lab.loaded).rows
    rows, arm = {row["key"]: row["value"] for row in table}, card(lab.arm)
    shown = str(table) + arm + str(written)
    kept = [path for path in tmp_path.rglob("*.json") if "hf_abcdefgh" in path.read_text(encoding="utf-8")]

    assert "hf_abcdefgh" not in shown
    assert "of_a_part" not in shown
    assert rows["training_arguments.hub_token"] == "***"
    assert "training_arguments.hub_token</td>" in arm
    assert kept
    assert {0o600} == {stat.S_IMODE(path.stat().st_mode) for path in kept}  # they say how to train
    assert written["training_args.yaml"].startswith("# Secrets are left out")
    assert yaml.safe_load(written["training_args.yaml"])["optim"] == settings.training("optim")
    assert "train.py" in written


def test_a_script_follows_the_defaults_that_were_recorded(quick: Settings, tmp_path: Path) -> None:
    """What is left out of it to be shared leaves the rest: another machine may have another transformers, or none."""
    recorded = {**training_defaults(), "eval_strategy": "steps", "eval_steps": 10}
    settings = replace(quick, defaults=recorded, **{key: {} for key in LEVEL_SECTIONS})
    loaded = load(ROOT / "params" / "quick.yaml")
    measurer = SimulatedMeasurer(Truth(gain=lambda arm, purpose: 0.0), settings.budget)
    lab = open_lab(replace(loaded, settings=settings), tmp_path, "90_final_config", measurer)
    write_files(lab, choose(lab))

    written = (tmp_path / settings.name / "final" / "train.py").read_text(encoding="utf-8")
    final = replace(settings, name=f"{settings.name}_final")
    assert written == script(final)
    assert written != script(replace(final, defaults=training_defaults()))


KERNEL = {"name": "python3", "display_name": "Python 3", "language": "python"}


def test_an_executed_notebook_holds_no_secret_of_its_overrides(tmp_path: Path) -> None:
    """The kernel gets what was given; the notebook that lies in the outputs, and may be sent, shows that it was."""
    source, target = tmp_path / "source.ipynb", tmp_path / "target.ipynb"
    cell = nbformat.v4.new_code_cell("overrides: list = []", metadata={"tags": ["parameters"]})
    told = nbformat.v4.new_code_cell("print(len(overrides[0]), overrides[1])")
    nbformat.write(nbformat.v4.new_notebook(cells=[cell, told], metadata={"kernelspec": KERNEL}), source)
    secret = "training_arguments.hub_token=hf_abcdefgh"
    parameters = {"overrides": [secret, "training_arguments.seed=7"], "measure": True}

    with private_sockets() as sockets:
        assert not execute_notebook.execute(str(source), str(target), parameters, sockets)

    shown = target.read_text(encoding="utf-8")
    assert "hf_abcdefgh" not in shown
    assert f"{len(secret)} training_arguments.seed=7" in shown
    assert shown.count("training_arguments.hub_token=***") == 2  # the cell, and what papermill keeps of it


def test_a_card_hides_the_secrets_of_a_command(quick: Settings, tmp_path: Path) -> None:
    """As the command itself does where it is shown."""
    (tmp_path / "train.py").write_text("")
    words = [sys.executable, "train.py", "--api-key", "of_the_command", "--lr", "1"]
    command = replace(resolve(words, tmp_path, os.environ), env={"HF_TOKEN": "of_its_environment"})
    shown = card(Arm(label="own", settings=replace(quick, command=command)))

    assert "--lr" in shown
    assert "of_the_command" not in shown
    assert "of_its_environment" not in shown


PROGRAM = """
import argparse, os
import torch
from transformers import TrainingArguments

parser = argparse.ArgumentParser()
parser.add_argument("--lr", type=float, default=0.1)
parser.add_argument("--wandb-key", default=os.environ["WANDB_API_KEY"])
parser.add_argument("--url", default="https://me:" + os.environ["WANDB_API_KEY"] + "@host")
parser.add_argument("--db", default="postgres://bob:of_the_database@host/x")
parser.add_argument("--api-key")
given = parser.parse_args()
arguments = TrainingArguments("out", hub_token="hf_of_the_program", use_cpu=True, report_to="none")
model = torch.nn.Linear(4, 1)
optimizer = torch.optim.SGD(model.parameters(), lr=given.lr)
for _ in range(10_000):
    model(torch.randn(2, 4)).mean().backward()
    optimizer.step()
    optimizer.zero_grad()
"""


def test_no_secret_of_a_program_is_kept_or_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither one of its environment nor one in its code; one of its command line is in the command alone."""
    monkeypatch.setenv("WANDB_API_KEY", "of_the_environment")
    (tmp_path / "train.py").write_text(PROGRAM)
    command = resolve([sys.executable, "train.py", "--api-key", "of_the_command"], tmp_path, os.environ)
    file = write(survey(command, SurveyOrder(startup=120, seconds=60), os.environ), tmp_path / "out")
    kept = "\n".join(path.read_text(encoding="utf-8") for path in file.parent.rglob("*") if path.is_file())
    loaded = load(file)
    shown = str(settings_table(loaded).rows) + str(loaded.settings.command)

    assert "of_the_environment" not in kept + shown
    assert "hf_of_the_program" not in kept + shown
    assert "of_the_database" not in kept.replace(PROGRAM, "") + shown
    assert "of_the_command" not in shown
    assert "'--lr'" in str(loaded.settings.surveyed.options) or "--lr" in kept
