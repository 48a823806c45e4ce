"""A vocabulary of 400 grown tags is put in order by suggestions, and metrics show what that buys.

People have tagged notes for a while: each of 120 topics has a name and a synonym, used by turns, and some have plurals,
other spellings and slips. A search suggests merges and parents, and the program accepts or dismisses each, as a person
who knows what the tags mean. A copy of the model keeps the grown tags. Both learn the same further notes, which still
have all names: a merged tag counts as the one that it was merged into.

One tag is easier to predict than several, so compare where any name of a topic counts. The notes are invented: in real
data more suggestions are wrong.

    manylabel serve
    python examples/grown_tags.py

It prints:

    421 tags; 120 topics and 8 areas are meant
    merges: 255 suggestions accepted, 0 dismissed
    again, and parents: 132 suggestions accepted, 0 dismissed
    147 tags are left
    as grown: micro-F1 0.70, macro-F1 0.24; if any name of a topic counts: 0.85, 0.67
    in order: micro-F1 0.91, macro-F1 0.73; if any name of a topic counts: 0.92, 0.86
"""

import random
from collections import Counter

from manylabel_clients import Client, Model

AREAS = ["garden", "kitchen", "travel", "health", "music", "money", "school", "sport"]
THINGS = {
    "tool": "gear", "plan": "schedule", "tip": "advice", "recipe": "formula", "review": "opinion", "guide": "manual",
    "photo": "picture", "story": "tale", "repair": "fix", "course": "lesson", "video": "film", "event": "date",
    "shop": "store", "friend": "contact", "book": "title",
}  # fmt: skip
SYLLABLES = ["ba", "ke", "li", "mo", "nu", "ra", "se", "ti", "vo", "zu"]


class Notes:
    """Texts with the tags that people give them."""

    def __init__(self, seed: int) -> None:
        self._rng = rng = random.Random(seed)
        self.meaning: dict[str, str] = {}
        """The topic of each tag."""
        self._names: dict[str, list[str]] = {}
        self._words: dict[str, list[str]] = {}
        for area in AREAS:
            self.meaning[area] = area
            of_area = ["".join(rng.choices(SYLLABLES, k=3)) for _ in range(2)]
            for thing, synonym in THINGS.items():
                topic = f"{area}-{thing}"
                names = [topic, f"{area}-{synonym}"] * 6
                names += [f"{topic}s"] * rng.choice([0, 1])
                names += [f"{area} {thing}".title()] * rng.choice([0, 1])
                at = rng.randrange(1, len(area) - 1)
                names += [f"{area[:at]}{area[at + 1 :]}-{thing}"] * rng.choice([0, 1])
                self._names[topic] = names
                own = ["".join(rng.choices(SYLLABLES, k=3)) for _ in range(3)]
                self._words[topic] = [*own, *of_area]
                self.meaning |= dict.fromkeys(names, topic)

    def next(self, n: int) -> list[tuple[str, list[str]]]:
        """Return texts with their tags."""
        rng, notes = self._rng, []
        for _ in range(n):
            words, tags = rng.choices(SYLLABLES, k=4), set()
            for topic in rng.sample(list(self._names), rng.choice([1, 2])):
                words += rng.sample(self._words[topic], 2)
                tags |= {rng.choice(self._names[topic]), topic.split("-")[0]}
            notes.append((" ".join(words), sorted(tags)))
        return notes


def put_in_order(model: Model, notes: Notes, kinds: set[str]) -> str:
    """Search, and accept or dismiss all suggestions of some kinds, as a person does; return what was done."""
    model.search_doubts().wait()
    decided = Counter[str]()
    while listed := [one for one in model.health(top=1000).suggestions if one.kind in kinds and one.request]:
        changed, parents = set[str](), dict[str, str]()
        for one in listed:
            other = one.into or one.parent or ""
            if changed & {one.label, other}:
                continue  # it is listed again, as it is after the change
            topic, of_other = notes.meaning[one.label], notes.meaning[other]
            is_right = of_other == (topic.split("-")[0] if one.kind == "parent" else topic)
            decided["accepted" if is_right else "dismissed"] += 1
            changed.add(one.label)
            if not is_right:
                model.dismiss(one)
            elif one.kind == "parent":
                parents[one.label] = other  # all at once, because a request has the parents of the time of the list
            else:
                model.apply(one)
        if parents:
            model.set_groups([], parents)
    return f"{decided['accepted']} suggestions accepted, {decided['dismissed']} dismissed"


def scores(model: Model, notes: list[tuple[str, list[str]]], meaning: dict[str, str]) -> tuple[float, float]:
    """Return micro- and macro-F1 of the topics of notes: any name of a topic counts."""
    hits, given, predicted = Counter[str](), Counter[str](), Counter[str]()
    for (_, tags), answer in zip(notes, model.predict_many([text for text, _ in notes]), strict=True):
        true, found = {meaning[tag] for tag in tags}, {meaning[tag] for tag in answer.labels}
        hits.update(true & found)
        given.update(true)
        predicted.update(found)
    f1 = [2 * hits[topic] / (given[topic] + predicted[topic]) for topic in given]
    return 2 * hits.total() / (given.total() + predicted.total()), sum(f1) / len(f1)


def main() -> None:
    notes = Notes(0)
    with Client() as client:  # MANYLABEL_URL, or http://127.0.0.1:8000
        tags = client.create_model("tags-grown", algorithm="falt")
        tags.update_many(notes.next(4000))
        left_alone = client.fork_model("tags-left-alone", "tags-grown")
        print(f"{n_tags(tags)} tags; 120 topics and 8 areas are meant")
        print("merges:", put_in_order(tags, notes, {"name", "merge"}))
        print("again, and parents:", put_in_order(tags, notes, {"name", "merge", "parent"}))
        print(f"{n_tags(tags)} tags are left")

        later, held_out = notes.next(2000), notes.next(500)
        for title, model in (("as grown", left_alone), ("in order", tags)):
            model.update_many(later)
            latest = model.metrics().window
            micro, macro = scores(model, held_out, notes.meaning)
            print(f"{title}: micro-F1 {latest.micro_f1:.2f}, macro-F1 {latest.macro_f1:.2f}", end="; ")
            print(f"if any name of a topic counts: {micro:.2f}, {macro:.2f}")


def n_tags(model: Model) -> int:
    """Return the number of tags that the model learns."""
    return sum(not label.retired for label in model.labels(limit=1000).labels)


if __name__ == "__main__":
    main()
