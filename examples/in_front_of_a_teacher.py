"""A model in front of an expensive teacher: it answers what it is sure of, and learns from the teacher's other answers.

Tickets come in one by one. The teacher here is a function, which stands for a language model: replace `ask_teacher` by
a call of yours, or run `manylabel teach tickets FILE --teacher http://localhost:11434/v1 --teacher-model llama3.1`.

    manylabel serve
    python examples/in_front_of_a_teacher.py

It prints:

    tickets 1 to 500: the teacher labelled 465
    tickets 501 to 1000: the teacher labelled 172
    tickets 1001 to 1500: the teacher labelled 136
    tickets 1501 to 2000: the teacher labelled 120
    more than half of the calls are saved: True
    answers that differ from the teacher: 0 of 1107; estimated by audits 0, allowed 76
    the gate is open, and 5 % of the sure tickets are audited
"""

import random

from manylabel_clients import Client, with_teacher

PHRASES = {
    "billing": ["I want a refund", "the invoice is wrong", "you have charged me twice"],
    "account": ["forgot my password", "my account is locked", "no code arrives"],
    "delivery": ["where is my parcel", "it came broken", "the address is old"],
    "praise": ["great service", "thank you very much"],
}
WORDS = ["hello", "please", "today", "again", "since monday", "my number is 5", "regards"]


def new_ticket(rng: random.Random) -> str:
    """Return the text of a ticket."""
    labels = rng.sample(list(PHRASES), rng.choice([0, 1, 1, 2]))
    return ", ".join([rng.choice(WORDS), *(rng.choice(PHRASES[label]) for label in labels), rng.choice(WORDS)])


def ask_teacher(text: str) -> list[str]:
    """Return the labels of a ticket; a slow and expensive call."""
    return [label for label, phrases in PHRASES.items() if any(phrase in text for phrase in phrases)]


def main() -> None:
    rng = random.Random(0)
    with Client() as client:  # MANYLABEL_URL, or http://127.0.0.1:8000
        # The model must learn labels of machines. The promise counts them only.
        tickets = client.create_model("tickets-in-front", promise={"parity": 0.95}, sources={"machine": 1.0})
        label = with_teacher(tickets, ask_teacher)
        answers, asked = [], []
        for _ in range(2000):
            text = new_ticket(rng)
            (answer,) = label.many([text])
            answers.append((answer, text))
            asked.append(answer.asked)
        for begin in range(0, 2000, 500):
            n_asked = sum(asked[begin : begin + 500])
            print(f"tickets {begin + 1} to {begin + 500}: the teacher labelled {n_asked}")
        print(f"more than half of the calls are saved: {sum(asked) < 1000}")

        alone = [(answer.labels, ask_teacher(text)) for answer, text in answers if not answer.asked]
        wrong = sum(set(labels or ()) != set(teacher) for labels, teacher in alone)
        promise = tickets.metrics().promise
        assert promise is not None
        account = promise["parity"]
        found = f"estimated by audits {account['estimated_wrong']:.0f}, allowed {account['allowed']:.0f}"
        print(f"answers that differ from the teacher: {wrong} of {len(alone)}; {found}")
        rate = f"{100 * account['audit_rate_now']:.0f} % of the sure tickets are audited"
        print(f"the gate is {account['state']}, and {rate}")


if __name__ == "__main__":
    main()
