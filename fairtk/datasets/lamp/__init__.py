"""LaMP, the personalization benchmark, as ir_datasets datasets ``lamp/...``.

A LaMP task asks a question for a user and brings along the user's own items, the profile. Here the
profile entries are the documents, and each query's own profile is its set of candidates. The field
``text`` of every document is what retrieval reads; the other fields feed the prompt (see
`fairtk.datasets.lamp.records`). Data come from the official addresses, or from a local folder with
the official files:

    from fairtk.datasets import lamp
    dataset = lamp.from_folder("my/folder", task=4)

Salemi et al.: LaMP: When Large Language Models Meet Personalization. ACL 2024.
"""

from fairtk.datasets.lamp.collection import license_of, task_of, write_folder
from fairtk.datasets.lamp.dataset import build, from_folder, ids
from fairtk.datasets.lamp.records import (
    DOC_TYPES,
    TASKS,
    Lamp1Doc,
    Lamp2Doc,
    Lamp3Doc,
    Lamp4Doc,
    Lamp5Doc,
    Lamp6Doc,
    Lamp7Doc,
    LampQuery,
    LampQuestion,
    retrieval_query,
    to_doc,
    to_entry,
)

__all__ = [
    "DOC_TYPES",
    "TASKS",
    "Lamp1Doc",
    "Lamp2Doc",
    "Lamp3Doc",
    "Lamp4Doc",
    "Lamp5Doc",
    "Lamp6Doc",
    "Lamp7Doc",
    "LampQuery",
    "LampQuestion",
    "build",
    "from_folder",
    "ids",
    "license_of",
    "retrieval_query",
    "task_of",
    "to_doc",
    "to_entry",
    "write_folder",
]
