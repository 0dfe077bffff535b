from .group import main as main
from .options import format_option as format_option
from .output import echo_frame as echo_frame
from .signature import given_options as given_options
from .signature import signature_command as signature_command
