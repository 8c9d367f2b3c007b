"""A trial submits no jobs, pushes nothing and switches nothing off by other programs; what only reads is done."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from slowstep.launch.outside_tools import HELD, hold


@pytest.fixture
def path(tmp_path: Path) -> str:
    """A PATH with a tool of each name, which says that it ran, behind those that stand in for them."""
    real = tmp_path / "it's real"
    real.mkdir()
    for name in HELD:
        (real / name).write_text('#!/bin/sh\necho "REAL $*"\n')
        (real / name).chmod(0o755)
    return hold(tmp_path / "tools", f"{real}:/usr/bin:/bin")


@pytest.mark.parametrize(
    "words",
    [
        "sbatch --dependency=afterany:7 next.sh",
        "sudo shutdown -h now",
        "sudo /sbin/poweroff",
        "systemctl poweroff",
        "git -C repo push origin main",
        "aws s3 cp --quiet last.pt s3://bucket/last.pt",
        "aws s3 sync out s3://bucket/out --exclude '*.tmp'",
        "aws --endpoint-url https://minio:9000 s3 cp ./x s3://b/",
        "aws s3 rm s3://bucket/last.pt",
        "aws ec2 terminate-instances --instance-ids i-1",
        "gsutil -m cp -r out gs://bucket/",
        "rsync -a -e ssh out/ me@host:out",
        "scp -P 22 last.pt host:",
        "rclone copy out remote:out",
        "curl -sX POST -d '{}' https://hooks.slack.com/services/x",
        "kubectl delete pod me",
        "echo done | mail -s done me@example.com",
        "mail -s 'done on the head node' me@example.com",
        "sbatch --wrap 'cat a | python t.py'",
        "git push origin head",
        "aws s3 cp last.pt s3://bucket/last.pt --region us-east-1",
        "aws s3 cp s3://bucket/a s3://bucket/b",
        "aws ses send-email --to me",
        "aws batch submit-job --job-name next",
        "azcopy copy ./ck https://a.blob.core.windows.net/c",
        "oci os object put --file ck",
        "mc mirror ./ck store/b/",
        "curl -sT ck https://store/ck",
        "curl -XPUT https://store/x",
        "curl https://hooks.slack.com/services/x --json '{}'",
    ],
)
def test_what_acts_elsewhere_is_not_done_and_succeeds(words: str, path: str) -> None:
    """Each as a program starts it by a shell."""
    done = subprocess.run(words, shell=True, env={"PATH": path}, capture_output=True, text=True, check=True)

    assert done.stdout == ""
    assert "slowstep: not done in a trial: " in done.stderr


@pytest.mark.parametrize(
    "words",
    [
        "git rev-parse HEAD",
        "git stash push",
        "aws s3 cp --quiet s3://bucket/data.tar ./data.tar",
        "aws s3 ls s3://bucket",
        "gsutil cp gs://bucket/x here",
        "rsync -a --delete out/ copy/",
        "rsync -a -e ssh host:data ./data",
        "curl -fsSL https://example.com/data",
        "curl -X POST http://localhost:8000/v1/completions",
        "curl -X PUT http://127.0.0.1:8000/x",
        "curl -sLO https://example.com/INPUT.zip",
        "curl -sL https://example.com/x -o OUTPUT/y.zip",
        "curl -d grant_type=client_credentials https://login.example.com/token",
        "aws s3 cp s3://bucket/shard.tar -",
        "aws s3 cp s3://bucket/x --no-progress ./x",
        "aws s3 cp s3://bucket/x uploads",
        "aws secretsmanager get-secret-value --secret-id arn:aws:secretsmanager:us-east-1:1:secret:x",
        "aws sts assume-role --role-arn arn:aws:iam::1:role/x",
        "gsutil cp gs://bucket/x -",
        "rclone lsjson remote:",
        "azcopy copy https://a.blob.core.windows.net/c/x ./x",
        "scp -P 22 host:last.pt .",
        "sudo ls",
        "systemctl status sshd",
        "scontrol show hostnames",
    ],
)
def test_what_reads_or_stays_here_is_done(words: str, path: str) -> None:
    """The tool itself runs, with its words as they are."""
    done = subprocess.run(words, shell=True, env={"PATH": path}, capture_output=True, text=True, check=True)

    assert done.stdout == f"REAL {words.partition(' ')[2]}\n"


def test_a_tool_that_is_not_installed_is_not_there(tmp_path: Path) -> None:
    """A program looks for `sbatch` to see that it runs on a cluster."""
    path = hold(tmp_path / "tools", str(tmp_path))

    assert list((tmp_path / "tools").iterdir()) == []
    assert path == f"{tmp_path / 'tools'}:{tmp_path}"
