"""Export to Weights & Biases, offline: `wandb sync` sends the folder later, if and when its owner wants that."""

from __future__ import annotations

from pathlib import Path

from slowstep.export.exported import PROJECT, Exported

DONE = "slowstep.done"
"""The file in a run's folder that says that all of it was written."""


def to_wandb(one: Exported, folder: Path) -> str:
    """Write an investigation as an offline run below `folder`, and return where it stands. Nothing is sent."""
    import wandb

    known = sorted(folder.glob(f"wandb/offline-run-*-{one.identity}/{DONE}"))
    if known:
        return f"{known[-1].parent} has it already"
    folder.mkdir(parents=True, exist_ok=True)
    settings = wandb.Settings(silent=True, console="off", disable_git=True, save_code=False, x_disable_stats=True)
    run = wandb.init(
        project=PROJECT, name=one.name, id=one.identity, dir=str(folder), mode="offline", config=one.tags,
        settings=settings,
    )  # fmt: skip
    written = Path(run.dir).parent
    try:
        run.summary.update(one.metrics)
        if one.rows:
            columns = list(one.rows[0])
            run.log({"hypotheses": wandb.Table(columns=columns, data=[[row[c] for c in columns] for row in one.rows])})
        artifact = wandb.Artifact(f"slowstep-{one.identity}", type="report", metadata={"name": one.name})
        for path in one.files:
            artifact.add_file(str(path), name=str(path.relative_to(one.folder)))
        run.log_artifact(artifact)
    finally:
        run.finish()
    (written / DONE).touch()
    return f"{written}; `wandb sync` sends it"
