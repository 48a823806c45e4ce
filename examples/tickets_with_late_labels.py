"""Tag tickets from their text, and learn from the labels that people send an hour later, or never.

A ticket is tagged when it arrives. Hours later, a person looks at most tickets, and sends the true labels with the id
of the prediction. For some tickets, the person confirms one label only. The metrics score the served prediction.

    manylabel serve
    python examples/tickets_with_late_labels.py

It prints:

    940 of 1200 tickets labelled, 150 tickets late
    micro-F1 of the answers that were given: 0.84
    without looking at a ticket:             0.49
    delivery, because of text=parcel, text=late
    urgent, because of text=today, text=please
"""

import random
from collections import deque

from manylabel_clients import Client

PHRASES = {
    "billing": ["charged twice", "the invoice is wrong", "my payment failed", "please send a refund"],
    "login": ["cannot sign in", "forgot my password", "the account is locked", "no code arrives"],
    "delivery": ["parcel is late", "parcel arrived damaged", "wrong address on the parcel", "nothing was delivered"],
    "returns": ["want to send it back", "return label is missing", "where do I return it", "please send a refund"],
    "urgent": ["as soon as possible", "today please", "I am waiting for an answer", "this is the third mail"],
}
FILLERS = ["hello", "thank you", "kind regards", "I ordered last week", "it is about my order", "on your site"]
COUNTRIES = ["DE", "FR", "IT", "JP"]
LATE_BY = 150  # tickets that arrive between a prediction and its labels


def new_ticket(rng: random.Random) -> tuple[dict[str, object], list[str]]:
    """Return a ticket, as a web form would send it, and its true labels."""
    labels = sorted({rng.choice(list(PHRASES)[:4]), *(["urgent"] if rng.random() < 0.2 else [])})
    if rng.random() < 0.25:
        labels = sorted({*labels, rng.choice(list(PHRASES)[:4])})
    parts = [rng.choice(PHRASES[label]) for label in labels] + rng.sample(FILLERS, 2)
    rng.shuffle(parts)
    return {"subject": parts[0], "text": ", ".join(parts[1:]), "country": rng.choice(COUNTRIES)}, labels


def main() -> None:
    rng = random.Random(0)
    with Client() as client:  # MANYLABEL_URL, or http://127.0.0.1:8000
        tickets = client.create_model("tickets-late", algorithm="falt", text={"fields": ["subject", "text"]})
        waiting: deque[tuple[str, list[str]]] = deque()
        for _ in range(1200):
            record, truth = new_ticket(rng)
            guess = tickets.predict(record, keep=True)  # the tags that the page shows at once
            waiting.append((guess.id, truth))
            if len(waiting) > LATE_BY:
                id, truth = waiting.popleft()
                seen = rng.random()
                if seen < 0.7:
                    tickets.label(id, truth)  # complete labels: all others are false
                elif seen < 0.9:
                    tickets.label(id, {truth[0]: True})  # one label confirmed; the others stay unknown
        measures = tickets.metrics().cumulative
        print(f"{tickets.status().updates} of 1200 tickets labelled, {LATE_BY} tickets late")
        print(f"micro-F1 of the answers that were given: {measures.micro_f1:.2f}")
        print(f"without looking at a ticket:             {measures.baseline.micro_f1:.2f}")

        answer = tickets.predict({"subject": "Hello", "text": "the parcel is late, today please"}, explain=2)
        for label in answer.labels:
            reasons = ", ".join(part.feature for part in answer.explanations[label].for_)
            print(f"{label}, because of {reasons}")


if __name__ == "__main__":
    main()
