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

from __future__ import annotations

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
