"""Server-sent events: parsing, and when and after which event to reconnect. No I/O and no waiting."""

from typing import Any

import httpx2
import pytest

from manylabel_clients import ConnectionFailed, Event, NotFound, Retry, Unavailable
from manylabel_clients.http.transport.sse import EventStream

RETRY = Retry(attempts=3, base_seconds=1, cap_seconds=100, jitter=0)


def fed(events: EventStream[Event], text: str) -> list[Any]:
    return [event for line in text.split("\n") if (event := events.feed(line)) is not None]


def test_events_are_parsed() -> None:
    events = EventStream("/v1/models/m/events", None, RETRY, Event)
    assert "Last-Event-ID" not in events.request.headers
    one, other = 'event: update\ndata: {"updates": 3}\nid: 17', "id:18\nevent:x\ndata:{}\nretry: 3"
    first, second = fed(events, f": hello\n\n{one}\n\n: still there\n\n{other}\n\n")
    assert (first.kind, first.position, first.data) == ("update", "17", {"updates": 3})
    assert (second.kind, second.position, second.data) == ("x", "18", {})
    assert events.request.headers["Last-Event-ID"] == "18"
    assert events.request.path == "/v1/models/m/events"


def test_events_follow_the_specification() -> None:
    events = EventStream("/v1/models/m/events", None, RETRY, Event)
    text = 'id: 4\n\nevent: update\ndata: {"updates":\ndata:\ndata: 3}\n\ndata: {}\nid: 5\n\n'
    first, second = fed(events, text)
    assert (first.kind, first.position, first.data) == ("update", "4", {"updates": 3}), "lines of data are joined"
    assert (second.kind, second.position, second.data) == ("message", "5", {})


def test_an_incomplete_event_is_dropped_with_its_connection() -> None:
    events = EventStream("/v1/models/m/events", "5", RETRY, Event)
    assert fed(events, 'event: update\ndata: {"updates": 3}\nid: 17') == []
    events.pause_seconds(None)
    assert events.request.headers["Last-Event-ID"] == "5"
    assert fed(events, "\n") == []


def test_a_stream_reconnects_while_events_arrive() -> None:
    events = EventStream("/v1/models/m/events", None, RETRY, Event)
    cut = httpx2.ReadTimeout("silence", request=httpx2.Request("GET", "http://s/p"))
    assert [events.pause_seconds(cut), events.pause_seconds(cut)] == [1, 2]
    fed(events, "event: update\ndata: {}\nid: 1\n\n")
    assert [events.pause_seconds(cut), events.pause_seconds(cut)] == [1, 2]
    with pytest.raises(ConnectionFailed):
        events.pause_seconds(cut)


def test_a_clean_end_is_no_failure() -> None:
    events = EventStream("/v1/models/m/events", None, RETRY, Event)
    assert [events.pause_seconds(None) for _ in range(10)] == [1] * 10


def test_a_missing_model_is_an_error() -> None:
    events = EventStream("/v1/models/m/events", None, RETRY, Event)
    with pytest.raises(NotFound):
        events.pause_seconds(httpx2.Response(404, request=httpx2.Request("GET", "http://s/p")))
    starting = httpx2.Response(503, headers={"Retry-After": "3"}, request=httpx2.Request("GET", "http://s/p"))
    assert events.pause_seconds(starting) == 3 + 2
    with pytest.raises(Unavailable):
        events.pause_seconds(starting)
