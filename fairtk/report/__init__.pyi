from .page import Section as Section
from .page import load_sections as load_sections
from .page import page_text as page_text
from .page import save_sections as save_sections
from .page import write_report as write_report
