"""Words of a text, in any script."""

from __future__ import annotations

import re
import unicodedata

_WORD = re.compile(r"\w+(?:-\w+)*")
_JOINERS = "\u200c\u200d"
"""Signs within words of Persian and Indian scripts."""


def words(text: str) -> list[str]:
    r"""Return the words of a text: letters, digits and marks, with hyphens between them.

    Combining marks belong to the letter before them: the vowel signs of Indian scripts, Arabic and
    Hebrew points, accents that stand apart. Python's ``\w`` leaves them out.
    """
    if text.isascii():
        return _WORD.findall(text)
    shown = [" "]
    for sign in text:
        mark = sign in _JOINERS or unicodedata.category(sign)[0] == "M"
        # as a letter where one can carry it; a mark alone is no word
        shown.append(("x" if _WORD.match(shown[-1]) else " ") if mark else sign)
    found = _WORD.finditer("".join(shown[1:]))
    return [text[match.start() : match.end()].rstrip(_JOINERS) for match in found]
