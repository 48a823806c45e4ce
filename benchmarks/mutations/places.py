"""Places: the original text, its replacement, and the tests that should fail."""

from typing import NamedTuple

CORE, SERVICE = "core/manylabel_core", "service/manylabel_service"


class Place(NamedTuple):
    """Place in the code, and how to break it."""

    file: str
    text: str
    broken: str
    tests: str
    """Files or folders of tests, separated by spaces."""


STORAGE, STATE = "tests/service/storage", "tests/service/online/state"
PLACES = (
    # Core
    Place(
        f"{CORE}/online/updates/_multipass.py",
        "tau[0] = downs * down - ups * up",
        "tau[0] = ups * up - downs * down",
        "tests/core/online/updates",
    ),
    Place(
        f"{CORE}/online/updates/_multipass.py",
        "violation = np.int32(margin < 1.0)",
        "violation = np.int32(margin <= 1.0)",
        "tests/core/online",
    ),
    Place(
        f"{CORE}/online/updates/_multipass.py",
        "tau[order[p]] = -(moves[p] * down)",
        "tau[order[p]] = -(moves[p] * up)",
        "tests/core/online/test_exactness.py",
    ),
    Place(
        f"{CORE}/online/updates/_multipass.py",
        "return passes if passes > 0 else min(max(1, n_labels), MAX_PASSES)",
        "return passes if passes > 0 else min(n_labels, MAX_PASSES)",
        "tests/core/online/test_extremes.py",
    ),
    Place(
        f"{CORE}/online/calibration/_logistic.py",
        "probabilities[label] * (1.0 - probabilities[label]) * known",
        "probabilities[label] * known",
        "tests/core/online/calibration",
    ),
    Place(
        f"{CORE}/online/calibration/_logistic.py",
        "distance * distance * (own * (before / after))",
        "distance * distance * own",
        "tests/core/online/calibration",
    ),
    Place(
        f"{CORE}/online/calibration/_logistic.py",
        "steep = min(max(steep, 0.0), MAX_SLOPE)",
        "steep = min(steep, MAX_SLOPE)",
        "tests/core/online/calibration",
    ),
    Place(
        f"{CORE}/metrics/_prequential.py",
        "if not 0 <= indices[at] < n_labels[i]:",
        "if not 0 <= indices[at] <= n_labels[i]:",
        "tests/core/metrics",
    ),
    Place(
        f"{CORE}/metrics/_prequential.py",
        "return max(np.int64(np.rint(weights[i] * UNIT)), 1)",
        "return np.int64(np.rint(weights[i] * UNIT))",
        "tests/core/metrics",
    ),
    Place(
        f"{CORE}/metrics/measures.py",
        "return one < other if self.lower_is_better else one > other",
        "return one <= other if self.lower_is_better else one >= other",
        "tests/core/metrics tests/service/jobs",
    ),
    Place(
        f"{CORE}/compiled.py",
        "digest.update(_stamp(other, called[other]))",
        "_stamp(other, called[other])",
        "tests/core/test_compiled.py",
    ),
    # Storage
    Place(
        f"{SERVICE}/storage/checksums.py",
        "crc32(payload) + number) & 0xFFFFFFFF",
        "crc32(payload)) & 0xFFFFFFFF",
        STORAGE,
    ),
    Place(
        f"{SERVICE}/storage/checksums.py",
        "return value if sealed[:SEAL_BYTES] == _seal_of(value, context) else None",
        "return value",
        STORAGE,
    ),
    Place(
        f"{SERVICE}/storage/sqlite/database/wal_checkpointer.py", "        os.fsync(self._descriptor)\n", "", STORAGE
    ),
    Place(
        f"{SERVICE}/storage/sqlite/logs.py",
        "one_statement = known >= log.last and",
        "one_statement = known > log.last and",
        STORAGE,
    ),
    Place(
        f"{SERVICE}/storage/sqlite/logs.py",
        "trimmed = max(log.trimmed, min(number, log.last))",
        "trimmed = min(number, log.last)",
        STORAGE,
    ),
    Place(
        f"{SERVICE}/storage/sqlite/logs.py",
        "min(first + rows - 1, base + through)",
        "min(first + rows, base + through)",
        STORAGE,
    ),
    Place(
        f"{SERVICE}/storage/snapshots.py",
        "                await self._logs.read(record, position, 1)\n",
        "                pass\n",
        STORAGE,
    ),
    Place(
        f"{SERVICE}/storage/snapshots.py",
        "table.having(id, after) if after.reasons else table.without(id)",
        "table.without(id)",
        STORAGE,
    ),
    Place(
        f"{SERVICE}/storage/sqlite/documents.py",
        "if found != revision:",
        "if revision is not None and found != revision:",
        STORAGE,
    ),
    # Online models
    Place(
        f"{SERVICE}/online/state/apply.py",
        "        model.position = entry.position\n        self._waiting.popleft()",
        "        self._waiting.popleft()",
        f"{STATE} tests/service/online",
    ),
    Place(
        f"{SERVICE}/online/state/apply.py",
        "entry.taken = entry.skipped\n",
        "entry.taken = 0\n",
        f"{STATE} tests/service/online",
    ),
    Place(
        f"{SERVICE}/online/state/apply.py",
        "return ApplyResult(answer, replayed=True)",
        "return ApplyResult(answer, replayed=False)",
        STATE,
    ),
    Place(
        f"{SERVICE}/online/state/apply.py",
        "None if complete else labels",
        "labels",
        f"{STATE} tests/service/online",
    ),
    Place(
        f"{SERVICE}/online/state/idempotency_window.py",
        "while len(self._answers) > MAX_KEYS or",
        "while len(self._answers) >= MAX_KEYS or",
        STATE,
    ),
    Place(
        f"{SERVICE}/online/state/idempotency_window.py",
        "            self._answer_bytes -= oldest.nbytes\n",
        "            pass\n",
        STATE,
    ),
    Place(
        f"{SERVICE}/online/snapshots/retention.py",
        "first = max(n_kept, 2) - 1",
        "first = max(n_kept, 1) - 1",
        "tests/service/online/snapshots",
    ),
    Place(
        f"{SERVICE}/online/history/archiver.py",
        "self._is_due(entries, found):\n                return min(found.through, through, key=position_key)",
        "self._is_due(entries, found):\n                return through",
        "tests/service/online/history",
    ),
    Place(
        f"{SERVICE}/online/snapshots/quota.py",
        "        self.bytes_in_memory -= n_bytes\n",
        "",
        "tests/service/online/snapshots",
    ),
    Place(f"{SERVICE}/online/updates/in_flight_keys.py", "self._keys.discard(key.key)", "pass", "tests/service/online"),
    Place(
        f"{SERVICE}/online/updates/update_queue.py",
        "if waiting and waiting + more > limit:",
        "if waiting + more > limit:",
        "tests/service/online tests/service/api/test_overload.py",
    ),
    Place(
        f"{SERVICE}/online/updates/update_queue.py",
        "            self.payload_bytes -= len(pending.payload)\n",
        "",
        "tests/service/online",
    ),
    # Access, jobs, datasets
    Place(
        f"{SERVICE}/access/rates.py",
        "if most is not None and self._under_way >= most:",
        "if most is not None and self._under_way > most:",
        "tests/service/access",
    ),
    Place(
        f"{SERVICE}/access/rates.py",
        "    ) -> None:\n        self._under_way -= 1",
        "    ) -> None:\n        pass",
        "tests/service/access",
    ),
    Place(
        f"{SERVICE}/jobs/job_record.py",
        "if task.attempt >= max_attempts:",
        "if task.attempt > max_attempts:",
        "tests/service/jobs/test_jobs_tasks.py tests/service/jobs/test_jobs_records.py",
    ),
    Place(
        f"{SERVICE}/jobs/job_record.py",
        "if self.has_ended or task.lease != token:",
        "if task.lease != token:",
        "tests/service/jobs",
    ),
    Place(
        f"{SERVICE}/jobs/supervision/lease.py",
        "        self.valid_until = begun + VALID_SECONDS\n",
        "        self.valid_until = time.monotonic() + VALID_SECONDS\n",
        "tests/service/jobs",
    ),
    Place(
        f"{SERVICE}/datasets/sandbox_child.py",
        '        processes.limit(resource.RLIMIT_AS, used + request["memory"])\n',
        "        pass\n",
        "tests/service/datasets tests/service/api/routers/test_datasets.py",
    ),
    Place(
        f"{SERVICE}/datasets/upload_slots.py",
        "one.release and one.moved_at <= before and one is not besides",
        "one.release and one.moved_at <= before",
        "tests/service/datasets/test_upload_slots.py",
    ),
)
