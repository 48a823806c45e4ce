"""Models of articles whose labels follow from the words of their titles."""

import random
from typing import Any

from manylabel_clients.http.client import Client
from manylabel_clients.http.resources.models import Model

WORDS = {"pets": ["cat", "dog", "hamster"], "cars": ["engine", "wheel", "brake"], "food": ["soup", "bread", "cheese"]}
FILLER = ["the", "new", "with", "small", "large", "from", "about"]


def article(chance: random.Random) -> tuple[dict[str, Any], list[str]]:
    """Return a record and its labels."""
    y = chance.sample(sorted(WORDS), chance.choice([1, 1, 2]))
    words = [chance.choice(WORDS[label]) for label in y for _ in range(2)] + chance.sample(FILLER, 3)
    chance.shuffle(words)
    return {"title": " ".join(words).capitalize(), "pages": chance.randrange(1, 9)}, y


def new_model(client: Client, name: str, n_learnt: int = 120, n_kept: int = 0, **spec: Any) -> Model:
    """Return a model that has learnt some articles, and keeps predictions of others."""
    chance = random.Random(name)
    model = client.create_model(name, **{"algorithm": "falt", "text": {"fields": ["title"]}, **spec})
    model.update_many([article(chance) for _ in range(n_learnt)])
    for _ in range(n_kept):
        model.predict(article(chance)[0], keep="record")
    return model
