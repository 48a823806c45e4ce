"""What is said to a reader who sees it alone, as on a page of OpenAPI."""

import re

VERB = re.compile(r"\b(is|are|has|makes|stops|watches|says|stands|weighs|predicts)\b")
FRAGMENT = re.compile(r"(As|How|Of|What|Whether|Which)\b")


def is_sentence(text: str) -> bool:
    """Whether the first sentence has a verb, is no question without an answer, and ends."""
    first = text.split(". ")[0]
    return bool(VERB.search(first)) and not FRAGMENT.match(first) and text.endswith(".")
