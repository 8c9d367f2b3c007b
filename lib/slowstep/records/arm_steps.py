"""All steady steps of one arm, collected from every record of an investigation."""

from __future__ import annotations

from collections.abc import Collection

from slowstep.records.schema import ComparisonRecord, Environment, ObservationRecord, Steps, TrialRecord
from slowstep.records.store import Store


def steps_of_arm(
    store: Store, arm: str, environment: Environment, among: Collection[str] | None, node: str
) -> dict[str, list[Steps]]:
    """Return the steps of an arm, told by its identity, that were timed in an environment: one `Steps` for each launch.

    They are those of one `node` of a cluster; of the machine that the kit ran on if `node` is empty. They stand under
    the names of their records, such as "comparisons/0123456789abcdef". Only the records in `among` count, if it is not
    None. Comparisons that were measured together share steps, which stand under one of them.
    """
    wanted, found, known = environment.determinants, {}, set[tuple[float, ...]]()
    for kind, record_type in (("observations", ObservationRecord), ("comparisons", ComparisonRecord)):
        for name in store.names(kind):
            if among is not None and f"{kind}/{name}" not in among:
                continue
            record = store.read(record_type, kind, name)
            if record is not None and record.environment.determinants == wanted and record.node == node:
                of_arm = [one for identity, trial in _arms(record) if identity == arm for one in trial.steps]
                new = {(*one.position, *one.seconds): one for one in of_arm}
                steps = [one for name, one in new.items() if name not in known]
                known |= new.keys()
                found |= {f"{kind}/{name}": steps} if steps else {}
    return found


def _arms(record: ObservationRecord | ComparisonRecord) -> list[tuple[str, TrialRecord]]:
    if isinstance(record, ObservationRecord):
        return [(record.arm, record.trial)]
    return list(zip(record.arms, (record.baseline, record.treatment), strict=False))
