"""Tickets with words and an embedding: from a file and over HTTP, with the explanation of a prediction.

The embedding comes from your own model or an API. Here a table of meanings stands for it: it knows that "refund" and
"reimbursement" are close.

    manylabel serve
    python examples/tickets_with_embeddings.py

It prints:

    60 tickets learnt from a file
    200 of 200 right over HTTP
    reimbursement since monday: billing
      embedding +2.7
      subject=reimbursement +1.1
"""

import base64
import csv
import json
import random
import tempfile
from array import array
from pathlib import Path

from manylabel_clients import Client

MEANINGS = {
    "billing": ["refund", "reimbursement", "invoice", "charge", "money", "payment"],
    "account": ["password", "login", "username", "lockout", "profile", "code"],
    "delivery": ["parcel", "shipment", "courier", "package", "tracking", "van"],
}
FILLERS = ["hello", "please", "my", "the", "thanks", "again", "help", "about", "since", "monday"]


def embed(text: str) -> list[float]:
    """Return the amount of each meaning in the words of a text, and two uninformative numbers."""
    words = text.split()
    shares = [sum(word in meaning for word in words) / len(words) for meaning in MEANINGS.values()]
    return [*shares, len(text) / 100, words.count("the") / 10]


def new_ticket(rng: random.Random) -> tuple[str, str]:
    """Return the subject of a ticket, and its topic."""
    topic = rng.choice(list(MEANINGS))
    words = [rng.choice(MEANINGS[topic]), *rng.sample(FILLERS, 5)]
    rng.shuffle(words)
    return " ".join(words), topic


def write_file(path: Path, rng: random.Random, n: int) -> None:
    """Write a table whose cells in the column `embedding` are lists of numbers in JSON."""
    with path.open("w", newline="") as file:
        writer = csv.writer(file)
        writer.writerow(["subject", "embedding", "topic"])
        for _ in range(n):
            subject, topic = new_ticket(rng)
            writer.writerow([subject, json.dumps(embed(subject)), topic])


def packed(vector: list[float]) -> dict[str, str]:
    """Return a vector as base64 of little-endian float32: a third of the bytes of a list in JSON."""
    return {"f32": base64.b64encode(array("f", vector).tobytes()).decode()}


def main() -> None:
    rng = random.Random(0)
    with Client() as client, tempfile.TemporaryDirectory() as folder:  # MANYLABEL_URL, or http://127.0.0.1:8000
        file = Path(folder) / "tickets.csv"
        write_file(file, rng, 60)
        tickets = client.create_model("tickets-embedded", algorithm="falt", text={"fields": ["subject"]})
        with file.open(newline="") as rows:  # like `manylabel feed tickets-embedded tickets.csv --tags topic`
            for row in csv.DictReader(rows):
                record = {"subject": row["subject"], "embedding": json.loads(row["embedding"])}
                tickets.update(record, [row["topic"]])
        print(f"{tickets.status().updates} tickets learnt from a file")

        right = 0
        for _ in range(200):
            subject, topic = new_ticket(rng)
            before, _ = tickets.predict_update({"subject": subject, "embedding": packed(embed(subject))}, [topic])
            right += before.labels == [topic]
        print(f"{right} of 200 right over HTTP")

        subject = "reimbursement since monday"
        answer = tickets.predict({"subject": subject, "embedding": packed(embed(subject))}, explain=2)
        print(f"{subject}: {', '.join(answer.labels)}")
        for part in answer.explanations["billing"].for_:
            print(f"  {part.feature} {part.contribution:+.1f}")


if __name__ == "__main__":
    main()
