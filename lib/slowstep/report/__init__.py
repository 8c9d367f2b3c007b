"""Figures, tables and sentences that people see, made from judgements. Nothing here imports torch."""

from slowstep.report.arm_charts import intervals, matrix, memory
from slowstep.report.baseline_charts import bounds, step_times, time_budget
from slowstep.report.baseline_tables import before_after, facts, job, lost_time, remaining, trial_time, work_parts
from slowstep.report.chart import Chart, Table
from slowstep.report.node_tables import nodes, slower_node
from slowstep.report.operators import device_idle, operators
from slowstep.report.prose import baseline_conclusion, conclusion, final_conclusion
from slowstep.report.rank_charts import collective_times, rank_times, scaling, swapped
from slowstep.report.reported import (
    reported_claims,
    reported_conclusion,
    reported_findings,
    reported_questions,
    reported_rows,
    reported_speeds,
)
from slowstep.report.tables import (
    accumulation,
    arms,
    batch_sizes,
    best_each_way,
    files,
    findings,
    settings_table,
    trials,
)

__all__ = [
    "Chart",
    "Table",
    "accumulation",
    "arms",
    "baseline_conclusion",
    "batch_sizes",
    "before_after",
    "best_each_way",
    "bounds",
    "collective_times",
    "conclusion",
    "device_idle",
    "facts",
    "files",
    "final_conclusion",
    "findings",
    "intervals",
    "job",
    "lost_time",
    "matrix",
    "memory",
    "nodes",
    "operators",
    "rank_times",
    "remaining",
    "reported_claims",
    "reported_conclusion",
    "reported_findings",
    "reported_questions",
    "reported_rows",
    "reported_speeds",
    "scaling",
    "settings_table",
    "slower_node",
    "step_times",
    "swapped",
    "time_budget",
    "trial_time",
    "trials",
    "work_parts",
]
