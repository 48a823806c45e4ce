"""Automation with a promise of precision: sure labels are applied unseen, and people review the rest.

Tickets come in one by one. The program applies the labels in `auto`. Tickets with `review` true wait in the review
queue, where a person labels them. The server keeps an account of the labels that were wrong.

    manylabel serve
    python examples/automation.py

It prints:

    673 of 1200 tickets went without review, 0 of them with a mistake
    of those reviewed: applied 269, wrong 6; the gate is open, room for 9 more errors before it stops
    least precise: account, 0.95
"""

import random

from manylabel_clients import Client

PHRASES = {
    "billing": ["I want a refund", "the invoice is wrong", "you have charged me twice"],
    "account": ["forgot my password", "my account is locked", "no code arrives"],
    "delivery": ["where is my parcel", "it came broken", "the address is old"],
    "praise": ["great service", "thank you very much"],
}
VAGUE = ["please help me", "it is about my order", "no answer yet"]


def new_ticket(rng: random.Random) -> tuple[str, list[str]]:
    """Return the text of a ticket and its labels; one in five texts does not reveal the labels."""
    labels = rng.sample(list(PHRASES), rng.choice([1, 1, 2]))
    phrases = [rng.choice(VAGUE if rng.random() < 0.2 else PHRASES[label]) for label in labels]
    return ", ".join(phrases), labels


def main() -> None:
    rng = random.Random(0)
    with Client() as client:  # MANYLABEL_URL, or http://127.0.0.1:8000
        tickets = client.create_model("tickets-automation", algorithm="falt", promise={"precision": 0.95})
        truth: dict[str, list[str]] = {}  # labels of a person who looks at the review queue only
        unseen: list[tuple[list[str], list[str]]] = []
        for _ in range(60):
            for _ in range(20):
                text, labels = new_ticket(rng)
                answer = tickets.predict(text, keep="record")
                assert answer.id is not None
                truth[answer.id] = labels
                if not answer.review:  # `answer.auto` is applied, and no person looks at the ticket
                    unseen.append((answer.auto or [], labels))
            queue = {one.id for one in tickets.predictions(order="review", limit=100).predictions}
            tickets.label_many([(id, labels) for id, labels in truth.items() if id in queue])

        wrong = sum(set(applied) != set(labels) for applied, labels in unseen)
        print(f"{len(unseen)} of {len(truth)} tickets went without review, {wrong} of them with a mistake")
        account = tickets.metrics().promise
        assert account is not None
        total, gate = account["total"], account["gate"]
        state = f"the gate is {gate['state']}, {gate['why']}"
        print(f"of those reviewed: applied {total['applied']}, wrong {total['wrong']}; {state}")
        worst = account["labels"][0]
        print(f"least precise: {worst['label']}, {worst['precision']:.2f}")


if __name__ == "__main__":
    main()
