from .group import main as main
