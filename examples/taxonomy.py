"""Labels that exclude each other and labels in a tree: no prediction contradicts itself.

A ticket has exactly one priority, and its topics form a tree: a refund is a billing matter. True labels may omit
implied labels, which the server adds. Predictions satisfy the groups and the parents.

    manylabel serve
    python examples/taxonomy.py

It prints:

    0 of 300 predictions contradict themselves
    a refund, today: billing, high, refund
    micro-F1 0.97
"""

import random

from manylabel_clients import Client

PRIORITY = {"name": "priority", "labels": ["low", "mid", "high"], "choose": "one"}
PARENTS = {"refund": "billing", "invoice": "billing", "password": "account", "lockout": "account"}
PHRASES = {
    "refund": ["please send my money back", "I want a refund"],
    "invoice": ["the invoice is wrong", "the bill has the old address"],
    "password": ["forgot my password", "the password is refused"],
    "lockout": ["my account is locked", "no code arrives"],
    "low": ["no hurry", "whenever you have time"],
    "mid": ["this week please", "I am waiting for an answer"],
    "high": ["as soon as possible", "today please"],
}


def new_ticket(rng: random.Random) -> tuple[str, list[str]]:
    """Return the text of a ticket and its labels, without the parents."""
    labels = [rng.choice(list(PARENTS)), rng.choice(list(PRIORITY["labels"]))]
    return ", ".join(rng.choice(PHRASES[label]) for label in labels), labels


def main() -> None:
    rng = random.Random(0)
    with Client() as client:  # MANYLABEL_URL, or http://127.0.0.1:8000
        tickets = client.create_model("tickets-taxonomy", algorithm="falt", groups=[PRIORITY], parents=PARENTS)
        contradictions = 0
        for _ in range(300):
            text, labels = new_ticket(rng)
            before, _ = tickets.predict_update(text, labels)
            predicted = set(before.labels)
            chosen = predicted & set(PRIORITY["labels"])
            orphans = [child for child, parent in PARENTS.items() if child in predicted and parent not in predicted]
            contradictions += len(chosen) != 1 or bool(orphans)
        print(f"{contradictions} of 300 predictions contradict themselves")

        answer = tickets.predict("I want a refund, today please")
        print(f"a refund, today: {', '.join(sorted(answer.labels))}")

        # Another label under billing; what was learnt stays.
        tickets.set_groups([PRIORITY], {**PARENTS, "double charge": "billing"})
        tickets.update("you have charged me twice, no hurry", ["double charge", "low"])
        print(f"micro-F1 {tickets.status().metrics.cumulative.micro_f1:.2f}")


if __name__ == "__main__":
    main()
