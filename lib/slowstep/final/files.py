"""The folder final/: configuration files that a person would otherwise write by hand."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import yaml

from slowstep.factors import without_refused
from slowstep.final.choice import Choice
from slowstep.final.command_files import command_files
from slowstep.final.decision_record import decision
from slowstep.final.script import script, why_not
from slowstep.investigation.lab import Lab
from slowstep.records.store import write_atomically
from slowstep.report.tables import FINAL_FILES
from slowstep.settings.convert import from_plain, to_plain
from slowstep.settings.settings import Settings
from slowstep_probe.secret import without_secrets


def write_files(lab: Lab, choice: Choice) -> list[Path]:
    """Write configuration files for the ecosystem, a script, a parameter file and the decision record.

    Return their paths. OSError names a file that can't be written.
    """
    folder, s = lab.folder / "final", choice.settings
    if s.command is not None:
        return _written(folder, command_files(lab, choice, s.command))
    epochs = {"num_train_epochs": s.job.epochs} if s.job.epochs else {}
    values = {"training_args.yaml": {"output_dir": s.name} | s.training_arguments | epochs}
    if s.peft:
        values["lora_config.yaml"] = s.peft
    if s.quantization:
        values["quantization_config.yaml"] = s.quantization
    values[f"{s.name}.yaml"] = to_plain(without_refused(s))
    texts = {name: _as_yaml(content) for name, content in values.items()}
    if not why_not(s):
        texts["train.py"] = script(replace(from_plain(Settings, without_secrets(to_plain(s))), defaults=s.defaults))
    texts["decision.md"] = decision(lab, choice)
    return _written(folder, texts)


def _as_yaml(content: Mapping[str, Any]) -> str:
    """Return the text of a YAML file without secrets, since what is in final/ is shared and exported."""
    plain = to_plain(content)
    shared = without_secrets(plain)
    note = "" if shared == plain else "# Secrets are left out: this file may be shared. Add them where you train.\n"
    return note + yaml.safe_dump(shared, sort_keys=False, allow_unicode=True)


def _written(folder: Path, texts: Mapping[str, str]) -> list[Path]:
    """Write texts by name of their file, remove files of an earlier run, and return the paths."""
    for name in FINAL_FILES.keys() - texts.keys():  # files of an earlier run with another configuration
        (folder / name).unlink(missing_ok=True)
    for name, text in texts.items():
        write_atomically(folder / name, text)
    return [folder / name for name in texts]
