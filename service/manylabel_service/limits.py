"""Limits that no setting changes; they limit the memory and disk space of a server and the time of one client."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Limits:
    """Constants of a server, available as `Settings.limits`; tests replace some with smaller ones."""

    header_timeout_seconds: float = 10.0
    """Timeout in seconds for receiving the request line and the headers, and for the first byte on a new connection."""

    body_timeout_seconds: float = 60.0
    """Timeout in seconds for receiving a request body, plus a second for every 32 KiB received. It does not apply to a
    stream whose responses have begun, nor while the server itself reads slowly."""

    idle_timeout_seconds: float = 60.0
    """Seconds after which a stream, an upload or a download is ended if its client sends or receives nothing."""

    shutdown_timeout_seconds: int = 10
    """Seconds for which a stopping server lets requests in progress finish before it takes the last snapshots."""

    max_buffered_bytes: int = 2**28
    """Maximum bytes buffered for request bodies that are incomplete or wait to be parsed; above it, bodies of 64 KiB or
    more get 503. Also the maximum of unsent response bytes; above it, the connection with the most is closed."""

    max_batch_examples: int = 10_000
    """Maximum number of examples in a request."""

    max_response_scores: int = 1_000_000
    """Maximum number of scores (examples times labels) and probabilities in a response; a larger batch gets 413."""

    max_contributions: int = 100_000
    """Maximum number of contributions in a response, plus one for each explained label; requests for more get 422."""

    max_response_bytes: int = 3 * 2**22
    """Maximum bytes of the predictions in a response; requests for more get 413."""

    max_record_depth: int = 8
    """Maximum depth of nested objects in a record, including the record itself; the server rejects more with 422."""

    max_record_fields: int = 50_000
    """Maximum number of fields of a record, including fields of nested objects and strings in lists. It is also the
    maximum number of numbers, and of labels, of an example in a request. The server rejects more with 422."""

    max_queue_examples: int = 100_000
    """Maximum number of examples per model that wait to be learnt; the server rejects further updates with 429."""

    load_timeout_seconds: float = 10.0
    """Timeout in seconds of a request for a model that is being loaded; after it, the server responds with 503."""

    evict_idle_seconds: float = 3600.0
    """Seconds without a request after which a model is evicted from memory; 0 disables it."""

    position_wait_seconds: float = 5.0
    """Timeout in seconds of a prediction that waits for the log position it requests; after it, the server responds
    with 503."""

    max_stored_prediction_bytes: int = 2**28
    """Maximum bytes of the features and scores of the stored predictions of a model. Above it, requests to store
    predictions get 429."""

    max_ranked_predictions: int = 5_000
    """Maximum number of the newest stored predictions without labels that are compared to find the most uncertain
    ones."""

    max_versions: int = 100
    """Maximum number of versions of a trained model; at the limit, jobs for the model are refused until versions are
    deleted."""

    max_datasets: int = 100
    """Maximum number of datasets on a server; the server rejects further uploads with 507."""

    max_keys: int = 1_000
    """Maximum number of keys, including revoked ones. Above it, the oldest revoked keys are deleted; if none is
    revoked, creating a key fails with 507."""

    max_webhooks: int = 20
    """Maximum number of webhooks; at the limit, the server rejects new ones with 507."""

    max_queued_jobs: int = 100
    """Maximum number of queued and running jobs; the server rejects further jobs with 429."""

    job_niceness: int = 19
    """Niceness of training processes; at 19, they hardly slow down predictions."""

    job_max_attempts: int = 3
    """Maximum attempts to run a fit whose process or supervisor crashed; after that the job fails."""

    job_checkpoint_work: float = 2e9
    """Approximate number of multiplications before the first checkpoint of a fit, which take some seconds; later
    checkpoints are further apart."""
