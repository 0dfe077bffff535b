"""The study of *Towards Fair RAG* (Kim and Diaz 2024, arXiv 2409.11598)."""

from __future__ import annotations

from fairtk.studies.fair_rag.configuration import Configuration, read_configuration
from fairtk.studies.fair_rag.figures import plot_requests, plot_spread, plot_trade_off
from fairtk.studies.fair_rag.intervals import baselines, fairness_intervals
from fairtk.studies.fair_rag.labeling import label_agreement
from fairtk.studies.fair_rag.labels import UtilityLabels, agreement, statistics, utility_labels
from fairtk.studies.fair_rag.normalizing import normalized_utility
from fairtk.studies.fair_rag.planning import RagPlan, make_plan
from fairtk.studies.fair_rag.published import beside_paper, paper_numbers
from fairtk.studies.fair_rag.reporting import model_sections, save_model_sections, write_figures
from fairtk.studies.fair_rag.results import RagResults, saved_settings
from fairtk.studies.fair_rag.settings import RagSettings
from fairtk.studies.fair_rag.slopes import trade_offs, uniform_end
from fairtk.studies.fair_rag.specs import make_generator, make_retriever
from fairtk.studies.fair_rag.study import RagStudy
from fairtk.studies.fair_rag.tasks import LampTask, read_tasks

__all__ = [
    "Configuration",
    "RagPlan",
    "RagResults",
    "RagSettings",
    "RagStudy",
    "LampTask",
    "UtilityLabels",
    "agreement",
    "baselines",
    "beside_paper",
    "fairness_intervals",
    "label_agreement",
    "make_generator",
    "make_plan",
    "make_retriever",
    "model_sections",
    "normalized_utility",
    "paper_numbers",
    "plot_requests",
    "plot_spread",
    "plot_trade_off",
    "read_configuration",
    "read_tasks",
    "save_model_sections",
    "saved_settings",
    "statistics",
    "trade_offs",
    "uniform_end",
    "utility_labels",
    "write_figures",
]
