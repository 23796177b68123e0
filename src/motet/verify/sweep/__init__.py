"""Many checks at once: seeds of the simulator, mutants, sizes of models, histories; one report of all."""

from motet.verify.sweep.jobs import Done, Job, run_job
from motet.verify.sweep.plan import plan_grid, plan_histories, plan_mutants, plan_seeds
from motet.verify.sweep.report import Sweep, html_sweep

__all__ = [
    "Done",
    "Job",
    "Sweep",
    "html_sweep",
    "plan_grid",
    "plan_histories",
    "plan_mutants",
    "plan_seeds",
    "run_job",
]
