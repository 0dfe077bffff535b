from .base import FairTransformer as FairTransformer
from .candidates import Candidates as Candidates
from .candidates import CollectionBM25 as CollectionBM25
from .exposures import FixedExposure as FixedExposure
from .exposures import OracleExposure as OracleExposure
from .exposures import PlackettLuceExposure as PlackettLuceExposure
from .fair_qr.keywords import AnswerError as AnswerError
from .fair_qr.keywords import QueryRefiner as QueryRefiner
from .fair_qr.keywords import parse_keywords as parse_keywords
from .fair_qr.transformer import FairQR as FairQR
from .fair_qr.transformer import Outcome as Outcome
from .generator import FlanT5 as FlanT5
from .generator import Generator as Generator
from .samplers import EachDocument as EachDocument
from .samplers import FairSampler as FairSampler
from .samplers import OracleSampler as OracleSampler
from .samplers import PerSample as PerSample
from .scorers import BM25Scorer as BM25Scorer
from .scorers import ContrieverScorer as ContrieverScorer
from .scorers import NeuralScorer as NeuralScorer
from .scorers import Scorer as Scorer
from .scorers import SpladeScorer as SpladeScorer

# What other rooms use, and users need not:
# isort: split
from .candidates import index_tokens as index_tokens
from .fair_qr.ordering import DEEP as DEEP
from .fair_qr.ordering import EXPOSURE as EXPOSURE
from .fair_qr.ordering import SHARE as SHARE
from .fair_qr.ordering import target_shares as target_shares
from .fair_qr.transformer import plot_trace as plot_trace
