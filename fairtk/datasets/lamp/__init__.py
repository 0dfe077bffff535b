"""LaMP, the personalization benchmark, as ir_datasets datasets ``lamp/...``.

Each query has the profile of its user, whose entries are the query's candidate documents. Retrieval
uses the field ``text`` of documents; prompts use the other fields. The data come from the official
URLs, or from a local folder with the official files::

    from fairtk.datasets import lamp
    dataset = lamp.from_folder("my/folder", task=4)

Salemi et al.: LaMP: When Large Language Models Meet Personalization. ACL 2024.
"""

from __future__ import annotations

import lazy_loader

__getattr__, __dir__, __all__ = lazy_loader.attach_stub(__name__, __file__)
