"""The texts that describe parameters to users."""

import re

FRAGMENT = re.compile(r"(As|How|Of|That|What|Whether|Which|Who)\b")


def is_description(text: str) -> bool:
    """Whether a text is a sentence or a noun phrase: it begins with neither a subordinate clause nor a small letter."""
    return text[:1].isupper() and not FRAGMENT.match(text) and text.endswith(".")
