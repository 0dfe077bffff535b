from . import lamp as lamp
from . import trec_fair as trec_fair
from .provider import FairDataset as FairDataset
from .provider import get_answers as get_answers
from .provider import get_topics as get_topics
from .provider import join_answers as join_answers
