"""Names of keys, and positions as ids of stream entries.

All keys of one incarnation of a model share a hash tag, so a script may touch several of them on a Redis Cluster, and a
name that is created again shares no key with the earlier model of that name::

    ml:{tags.1763690000000}:head                 hash: positions up to which the log exists and is trimmed
    ml:{tags.1763690000000}:log                  stream: the log
    ml:{tags.1763690000000}:due                  sorted set: ids of stored predictions by expiry
    ml:{tags.1763690000000}:sizes                hash: bytes of each stored prediction, and of all under ""
    ml:{tags.1763690000000}:pred:<id>            string, expires: a stored prediction

    ml:format                                    string: format number of the store
    ml:models                                    hash: name -> incarnation and spec of each existing model
    {ml:models}:last                             string: highest incarnation assigned
    {ml:models}:staged, {ml:models}:gone         hashes: incarnation -> name, not yet named or not yet removed
    {ml:models}:changes                          stream: an entry for each of the last appends (not on a cluster) and
                                                 deletions
    {ml:models}:incarnations                     hash: incarnation -> name of each existing model
    {ml:models}:names                            sorted set: names, in order
    {ml:models}:used                             sorted set: names by the time of the last use
    {ml:models}:followers                        sorted set: incarnation of the leader, ":" and name of each follower

    ml:{documents}:last                          string: highest revision assigned
    ml:{documents}:values:<kind>                 hash: name -> revision and value
    ml:{documents}:order:<kind>                  sorted set: names by revision

    ml:{blobs}:heads                             hash: key -> location of the pieces of the blob
    ml:{blobs}:names                             sorted set: keys, in order
    ml:{blobs}:loose                             sorted set: tokens without a key and their numbers of pieces (0 while
                                                 they are written outside), by time
    ml:{blob.<token>}:<part>                     string: one piece of a blob; expires while it is being written

All documents are in one slot of a Redis Cluster, because their revisions come from one counter. The pieces of different
blobs are spread over the cluster; those of one blob are in one slot. No model has a tag without a number.
"""

from __future__ import annotations

from dataclasses import dataclass

from manylabel_service.storage.protocol import ModelMeta, position_key

FORMAT_NUMBER = "ml:format"
MODELS = "ml:models"
LAST_INCARNATION = "{ml:models}:last"
GONE = "{ml:models}:gone"
STAGED = "{ml:models}:staged"
CHANGES = "{ml:models}:changes"
INCARNATIONS = "{ml:models}:incarnations"
NAMES = "{ml:models}:names"
USED = "{ml:models}:used"
FOLLOWERS = "{ml:models}:followers"

LAST_REVISION = "ml:{documents}:last"
BLOBS = "ml:{blobs}:heads"
BLOB_NAMES = "ml:{blobs}:names"
LOOSE = "ml:{blobs}:loose"

LARGEST = 2**53 - 1
"""Maximum part of a position, because scripts compute with doubles."""


@dataclass(frozen=True, slots=True)
class Keys:
    """Keys of one incarnation of a model."""

    base: str

    @classmethod
    def of(cls, record: ModelMeta) -> Keys:
        return cls.named(record.name, record.incarnation)

    @classmethod
    def named(cls, name: str, incarnation: int) -> Keys:
        return cls(f"ml:{{{name}.{incarnation}}}:")

    @property
    def head(self) -> str:
        return f"{self.base}head"

    @property
    def log(self) -> str:
        return f"{self.base}log"

    @property
    def due(self) -> str:
        return f"{self.base}due"

    @property
    def sizes(self) -> str:
        return f"{self.base}sizes"

    def prediction(self, id: str) -> str:
        return f"{self.base}pred:{id}"


def document_keys(kind: str) -> tuple[str, str]:
    """Return the keys of the values of a kind, and of their sort order."""
    return f"ml:{{documents}}:values:{kind}", f"ml:{{documents}}:order:{kind}"


def piece_keys(token: str, n_pieces: int) -> list[str]:
    """Return the keys of the pieces of a blob."""
    return [f"ml:{{blob.{token}}}:{number}" for number in range(n_pieces)]


def entry_id(position: str) -> str:
    """Return the stream id of a position; ValueError for a position of another store."""
    key = position_key(position)
    if len(key) > 2:
        raise ValueError(f"a position of this store is one or two numbers, not {position!r}")
    milliseconds, number = (*key, 0)[:2]
    return f"{min(milliseconds, LARGEST)}-{min(number, LARGEST)}"


def position_of(id: str) -> str:
    """Return the position of a stream id."""
    return id.removesuffix("-0")


def lexical_range(prefix: str, after: str = "") -> tuple[bytes, bytes]:
    """Return the bounds, for ZRANGEBYLEX, of the texts that begin with a prefix and come after another text."""
    start, last = prefix.encode(), after.encode()
    return (b"(" + last if last >= start and last else b"[" + start), b"(" + start + b"\xff"
