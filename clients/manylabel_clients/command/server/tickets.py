"""Tickets of a help desk for the demo: made from phrases, in the same order on every machine.

A ticket has one to three topics. As in a real inbox, half of the subjects and some texts are vague, one word in fifty
is misspelt, and one label in ten is missing.
"""

import random
from collections.abc import Sequence
from typing import TypeAlias

Ticket: TypeAlias = tuple[dict[str, str], list[str]]
"""Record and labels of a ticket."""

N_TICKETS = 2_400

GIFT_CARDS_FROM = 1_200
"""Number of the first ticket that may be about gift cards, a label that the model does not know until then."""

SUBJECTS = {
    "account": ("Change my email address", "Two accounts", "My profile", "Delete my account"),
    "billing": ("Charged twice", "Question about my bill", "Payment declined", "Wrong amount"),
    "bug": ("App crashes", "Error 500 at checkout", "Search finds nothing", "The page stays blank"),
    "cancellation": ("Please cancel my order", "Cancel subscription", "I changed my mind"),
    "complaint": ("Very disappointed", "Third time I write", "This is not acceptable"),
    "damaged": ("Arrived broken", "Scratched on arrival", "Parts are missing"),
    "delivery": ("Where is my parcel?", "Late delivery", "Wrong address on my order", "Tracking"),
    "feature-request": ("A suggestion", "Dark mode please", "Could you add this?"),
    "gift-card": ("Gift card code", "My voucher does not work", "Balance of a gift card"),
    "invoice": ("Invoice needed", "VAT number on the invoice", "Receipt for my taxes"),
    "login": ("Cannot sign in", "Locked out", "Password reset", "The code never arrives"),
    "praise": ("Thank you!", "Great service", "Well done"),
    "refund": ("Refund", "Money back", "Still waiting for my refund"),
    "return": ("Return", "Wrong size", "How do I send this back?"),
    "sales": ("Price for 50 seats", "Do you ship to Norway?", "Is it in stock?"),
}

SENTENCES = {
    "account": (
        "Please change the email address of my account to the new one.",
        "I have two accounts by mistake, can you merge them?",
        "How do I delete my profile and all of my personal data?",
        "My name is spelled wrong in the profile settings.",
        "I moved, so the address in my account is out of date.",
    ),
    "billing": (
        "My card was charged twice for one order.",
        "You took {amount} from my bank account, but the price was lower.",
        "The payment was declined although the card is fine.",
        "There are two payments of {amount} on my statement this month.",
        "Why is this month's bill higher than the last one?",
        "I was charged for a plan that I never ordered.",
    ),
    "bug": (
        "The app crashes as soon as I open the {thing} page.",
        "At checkout I get error 500, with every browser.",
        "The search returns no results since the last update.",
        "The button does nothing when I tap it on my phone.",
        "The page stays blank after I upload a photo.",
    ),
    "cancellation": (
        "Please cancel the order, I do not need the {thing} any more.",
        "I want to cancel my subscription at the end of the month.",
        "Can I still stop the order before it ships?",
        "I ordered the {thing} by mistake, please cancel it.",
    ),
    "complaint": (
        "I have written three times without a reply.",
        "This is the worst service that I have ever had.",
        "I waited an hour on the phone, and then the call was cut.",
        "I am very disappointed, and I will tell my friends.",
        "If this is not solved by Friday, I will leave a bad review.",
    ),
    "damaged": (
        "The {thing} arrived broken, the box was crushed.",
        "There is a deep scratch on the {thing}.",
        "One part of the {thing} is missing from the parcel.",
        "The {thing} does not turn on, it was dead on arrival.",
        "The glass of the {thing} is cracked, I can send photos.",
    ),
    "delivery": (
        "My parcel should have been here {days} days ago.",
        "The tracking has not moved for {days} days.",
        "The courier says that it was delivered, but nothing is here.",
        "I gave the wrong street, can the driver still be told?",
        "When will the {thing} be shipped?",
        "It was left with a neighbour whom I do not know.",
    ),
    "feature-request": (
        "It would be great to have a dark mode.",
        "Could you add an export of my orders to a spreadsheet?",
        "A wish list that I can share with my family would help.",
        "Please let us sort the {thing} list by price.",
        "I would like to be told when an item is available again.",
    ),
    "gift-card": (
        "The code of my gift card is not accepted.",
        "How much is left on the voucher that I got for my birthday?",
        "I bought a gift card for {amount}, but the email with the code never came.",
        "Can I pay a part with a gift card and the rest by card?",
        "The voucher expired yesterday, can you extend it?",
    ),
    "invoice": (
        "I need an invoice with our VAT number for the tax office.",
        "The invoice shows the old name of our company.",
        "Where can I download the receipt for the {thing}?",
        "Please send the invoices of last year as PDF.",
    ),
    "login": (
        "I cannot sign in, it says that the password is wrong.",
        "The link to reset the password never arrives.",
        "My account is locked after too many attempts.",
        "The code for the second factor is always rejected.",
        "Since I have a new phone I cannot log in any more.",
    ),
    "praise": (
        "Your colleague on the phone was very kind and solved it at once.",
        "Thank you for the quick delivery, everything is perfect.",
        "I love the {thing}, keep up the good work.",
        "That was the best support that I have had in years.",
    ),
    "refund": (
        "I would like my money back.",
        "The refund of {amount} has not reached my account after {days} days.",
        "Please refund the shipping costs too.",
        "You promised a refund two weeks ago, where is it?",
        "How long does it take until the money is returned to my card?",
    ),
    "return": (
        "The {thing} is too small, I want to send it back.",
        "Where do I find the label for the return?",
        "Can I exchange the {thing} for another colour?",
        "I sent the {thing} back last week, has it arrived?",
        "It does not fit, which address do I return it to?",
    ),
    "sales": (
        "Do you ship to Norway, and what does it cost?",
        "What would fifty {thing}s cost for a school?",
        "Is the {thing} in stock in the shop in town?",
        "Which {thing} would you recommend for a beginner?",
        "Is there a discount for students?",
    ),
}

SHARES = {
    "account": 5,
    "billing": 10,
    "bug": 8,
    "cancellation": 6,
    "complaint": 5,
    "damaged": 7,
    "delivery": 12,
    "feature-request": 4,
    "gift-card": 7,
    "invoice": 4,
    "login": 8,
    "praise": 3,
    "refund": 5,
    "return": 7,
    "sales": 5,
}
"""Percentage of tickets whose first topic is this one."""

FOLLOWING = {
    "billing": ("refund", "invoice", "complaint"),
    "bug": ("complaint", "feature-request"),
    "cancellation": ("refund", "billing"),
    "damaged": ("return", "refund", "complaint"),
    "delivery": ("complaint", "refund", "cancellation"),
    "gift-card": ("billing", "login"),
    "login": ("account", "bug"),
    "praise": ("feature-request", "sales"),
    "refund": ("complaint", "billing"),
    "return": ("refund",),
    "sales": ("invoice", "delivery"),
}
"""Second topics of a ticket, by its first topic."""

VAGUE = ("Hello", "Question", "Help needed", "Urgent", "My order", "Order {order}", "Problem", "Please read")
BEFORE = ("Hi,", "Hello,", "Dear team,", "Good morning,", "", "", "")
BETWEEN = (
    "My order is {order}.",
    "I ordered the {thing} on Monday.",
    "Please answer soon.",
    "I have been a customer for years.",
    "Sorry for my English.",
    "It was a present for my sister.",
    "I have tried it twice.",
    "",
    "",
    "",
)
CALL_ME = ("Please call me back.", "Is anybody there?", "You know what it is about.", "See my last message.")
AFTER = ("Thanks", "Best regards", "Thank you in advance", "Kind regards", "Sent from my phone", "", "")
THINGS = ("lamp", "chair", "jacket", "kettle", "backpack", "camera", "desk", "bike helmet", "speaker", "tent")
CHANNELS = ("email", "email", "email", "chat", "form", "phone")
PLANS = ("free", "free", "plus", "business")
MISSING_LABELS, MISSPELT_WORDS, VAGUE_TEXTS = 0.1, 0.02, 0.05


class _Draw:
    """Random choices that are the same in every version of Python."""

    def __init__(self) -> None:
        self._random = random.Random(1).random

    def happens(self, share: float) -> bool:
        return self._random() < share

    def number(self, below: int) -> int:
        return int(self._random() * below)

    def one(self, items: Sequence[str]) -> str:
        return items[self.number(len(items))]

    def topic(self, topics: Sequence[str]) -> str:
        """Draw a topic; each has the probability of its share."""
        left = self.number(sum(SHARES[topic] for topic in topics))
        for topic in topics:
            left -= SHARES[topic]
            if left < 0:
                return topic
        raise AssertionError(topics)


def tickets() -> list[Ticket]:
    """Return the tickets, in the order of the stream."""
    draw = _Draw()
    return [_ticket(draw, number) for number in range(N_TICKETS)]


def _ticket(draw: _Draw, number: int) -> Ticket:
    known = [topic for topic in SHARES if topic != "gift-card" or number >= GIFT_CARDS_FROM]
    topics = [draw.topic(known)]
    while len(topics) < 3 and topics[-1] in FOLLOWING and draw.happens(0.4):
        following = draw.one(FOLLOWING[topics[-1]])
        if following in topics:
            break
        topics.append(following)
    thing, order = draw.one(THINGS), f"A{10_000 + draw.number(90_000)}"
    slots = {"thing": thing, "order": order, "days": str(2 + draw.number(12)), "amount": f"{9 + draw.number(190)}.90"}
    parts = [draw.one(BEFORE)]
    is_vague = draw.happens(VAGUE_TEXTS)
    for topic in topics:
        parts += [draw.one(CALL_ME if is_vague else SENTENCES[topic]), draw.one(BETWEEN)]
    text = " ".join(part for part in (*parts, draw.one(AFTER)) if part).format(**slots)
    subject = draw.one(VAGUE if draw.happens(0.5) else SUBJECTS[topics[0]]).format(**slots)
    text = " ".join(_misspelt(draw, word) if draw.happens(MISSPELT_WORDS) else word for word in text.split(" "))
    record = {"subject": subject, "text": text, "channel": draw.one(CHANNELS), "plan": draw.one(PLANS)}
    return record, [topic for topic in sorted(topics) if not draw.happens(MISSING_LABELS)]


def _misspelt(draw: _Draw, word: str) -> str:
    """Return a word with two letters exchanged."""
    if len(word) < 4 or not word.isalpha():
        return word
    at = 1 + draw.number(len(word) - 2)
    return word[:at] + word[at + 1] + word[at] + word[at + 2 :]
