"""Detect drift, train a challenger on the latest examples, and promote it if it is better.

A trained model, the champion, serves. An online model learns the same true labels and monitors its own errors. When a
label inverts its meaning, its drift detector fires, and a job trains a challenger on the latest examples of the online
model. Both predict examples that arrived since, and the better one is served.

    manylabel serve
    python examples/drift_and_a_challenger.py

It prints:

    calm has drifted, noticed after 50 examples: champion right in 50%
    of 300 examples since, the champion is right in 51%, the challenger in 98%
    songs serves version 2, right in 98%; promote(1) would take it back
"""

import random
from collections.abc import Iterator

from manylabel_clients import Client, Model

Example = tuple[dict[str, float], list[str]]
N_FEATURES = 8


def examples(rng: random.Random, n: int, moved: bool) -> Iterator[Example]:
    """Yield songs: numbers, and the moods that people hear in them. Once moved, one mood means the opposite."""
    for _ in range(n):
        x = {f"f{i}": rng.gauss(0, 1) for i in range(N_FEATURES)}
        calm = x["f0"] + x["f1"] > 0
        yield x, [*(["calm"] if calm != moved else []), *(["loud"] if x["f2"] - x["f3"] > 0.3 else [])]


def right(model: Model, asked: list[Example]) -> float:
    """Return the share of decisions (a label of an example) in which a model is right."""
    guesses = model.predict_many([x for x, _ in asked])
    wrong = sum(len({*y} ^ {*guess.labels}) for (_, y), guess in zip(asked, guesses, strict=True))
    return 1 - wrong / (2 * len(asked))


def main() -> None:
    rng = random.Random(0)
    with Client() as client:  # MANYLABEL_URL, or http://127.0.0.1:8000
        watcher = client.create_model("songs-watch", params={"drift": "adwin", "on_drift": "restart"})
        watcher.update_many(examples(rng, 1000, moved=False))
        client.train("m3l", {"stream": "songs-watch", "last": 1000}, model="songs", promote="always").wait()
        champion = client.model("songs")

        seen: list[Example] = []
        while "calm" not in watcher.metrics().drift.labels:  # nothing announces the drift; only true labels arrive
            batch = list(examples(rng, 50, moved=True))
            watcher.update_many(batch)
            seen += batch
        print(f"calm has drifted, noticed after {len(seen)} examples: champion right in {right(champion, seen):.0%}")

        watcher.update_many(examples(rng, 500, moved=True))
        latest = {"stream": "songs-watch", "last": 500}
        client.train("m3l", latest, model="songs-challenger", promote="always").wait()
        challenger = client.model("songs-challenger")
        new = list(examples(rng, 300, moved=True))
        old_share, new_share = right(champion, new), right(challenger, new)
        print(f"of 300 examples since, the champion is right in {old_share:.0%}, the challenger in {new_share:.0%}")

        if new_share > old_share:  # the same job makes the same model, bit for bit: now as a version of the champion
            client.train("m3l", latest, model="songs", promote="always").wait()
        served = next(version.version for version in champion.versions() if version.served)
        print(f"songs serves version {served}, right in {right(champion, new):.0%}; promote(1) would take it back")


if __name__ == "__main__":
    main()
