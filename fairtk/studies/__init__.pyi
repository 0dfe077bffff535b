from . import fair_qr as fair_qr
from . import fair_rag as fair_rag

# What other rooms use, and users need not:
# isort: split
from .frame import kind_of_source as kind_of_source
