"""Export to MLflow: a run for each investigation, in the experiment "slowstep"."""

from __future__ import annotations

from slowstep.export.exported import PROJECT, Exported

IDENTITY = "slowstep.identity"
"""The tag by which a run is found again, so that the same conclusions make no second run."""


def to_mlflow(one: Exported, uri: str) -> str:
    """Write an investigation to the tracking server or store at `uri`, and return where it stands."""
    from mlflow import MlflowClient

    client = MlflowClient(tracking_uri=uri)
    experiment = client.get_experiment_by_name(PROJECT)
    number = experiment.experiment_id if experiment else client.create_experiment(PROJECT)
    known = client.search_runs([number], filter_string=f"tags.`{IDENTITY}` = '{one.identity}'", max_results=1)
    if known and known[0].info.status == "FINISHED":
        return f"run {known[0].info.run_id} of {uri} has it already"
    tags = {**one.tags, IDENTITY: one.identity}
    run = known[0] if known else client.create_run(number, run_name=one.name, tags=tags)
    for name, value in one.metrics.items():
        client.log_metric(run.info.run_id, name, value)
    client.log_dict(run.info.run_id, {"hypotheses": one.rows}, "hypotheses.json")
    for path in one.files:
        inside = path.relative_to(one.folder).parent
        client.log_artifact(run.info.run_id, str(path), None if str(inside) == "." else str(inside))
    client.set_terminated(run.info.run_id)
    return f"run {run.info.run_id} of {uri}"
