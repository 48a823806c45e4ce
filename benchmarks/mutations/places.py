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
    Place(f"{SERVICE}/storage/sqlite/maintenance.py", "        os.fsync(self._descriptor)\n", "", STORAGE),
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
    Place(f"{SERVICE}/online/updates/admission.py", "self._keys.discard(key.key)", "pass", "tests/service/online"),
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
    # All parts again
    Place(
        f"{CORE}/promise/_gate.py",
        "gate[WEIGHT] *= 1.0 + 1.0 / MEMORY",
        "gate[WEIGHT] *= 1.0",
        "tests/core/promise",
    ),
    Place(
        f"{CORE}/promise/_gate.py",
        "if gate[SHADOW] >= OPENS_AT:",
        "if gate[SHADOW] > OPENS_AT + 1.0:",
        "tests/core/promise",
    ),
    Place(
        f"{CORE}/promise/_gate.py",
        "gate[OPEN] > 0.0 and gate[ACCOUNT] < 1.0 - alpha",
        "gate[OPEN] > 0.0 and gate[ACCOUNT] < 0.0",
        "tests/core/promise",
    ),
    Place(
        f"{CORE}/promise/_pass.py",
        "if child + 1 < n and highest[child + 1] < highest[child]:",
        "if child + 1 < n and highest[child + 1] > highest[child]:",
        "tests/core/promise",
    ),
    Place(
        f"{CORE}/online/drift/_adwin.py",
        "spread * chance) + allowed * weight:",
        "spread * chance):",
        "tests/core/online/drift",
    ),
    Place(
        f"{CORE}/online/models/linear/_centroid.py",
        "if listed_signs[at] > 0:",
        "if listed_signs[at] != 0:",
        "tests/core/online",
    ),
    Place(
        f"{CORE}/online/models/linear/_adaptive_multipass.py",
        "n_irrelevant += signs[column] < 0",
        "n_irrelevant += signs[column] <= 0",
        "tests/core/online",
    ),
    Place(
        f"{CORE}/online/models/linear/_sparse_table.py",
        "if j >= 0 and (i < 0 or own[i] < listed[j]):",
        "if j >= 0 and (i < 0 or own[i] > listed[j]):",
        "tests/core/online",
    ),
    Place(
        f"{CORE}/online/models/stack/_stack.py",
        "shared[n + p, 0] = KEPT * shared[n + p, 0] +",
        "shared[n + p, 0] = shared[n + p, 0] +",
        "tests/core/online",
    ),
    Place(
        f"{CORE}/scaling/_automatic.py",
        "while q < n_dense and dense[q] < features[p]:",
        "while q < n_dense and dense[q] <= features[p]:",
        "tests/core/scaling",
    ),
    Place(
        f"{CORE}/scaling/_automatic.py",
        "counted[features[p], HAVING] += 1.0",
        "counted[features[p], HAVING] += 0.0",
        "tests/core/scaling",
    ),
    Place(
        f"{CORE}/label_structure/_passes.py",
        "row[columns[node]] = min(share * above, above)",
        "row[columns[node]] = share",
        "tests/core/label_structure",
    ),
    Place(
        f"{CORE}/label_structure/_passes.py",
        "if parent >= 0 and signs[parent] < 0:",
        "if parent >= 0 and signs[parent] <= 0:",
        "tests/core/label_structure",
    ),
    Place(
        f"{CORE}/records/encoder.py",
        "if not abs(number) <= MAX_MAGNITUDE:",
        "if abs(number) > MAX_MAGNITUDE:",
        "tests/core/records tests/service/api",
    ),
    Place(
        f"{CORE}/records/tokeniser.py",
        'return not (word[0].isalnum() or word[0] == "_")',
        "return not word[0].isalnum()",
        "tests/core/records",
    ),
    Place(
        f"{CORE}/records/text.py",
        "if last > 0:  # the whole word is also a token",
        "if last > 1:",
        "tests/core/records",
    ),
    Place(
        f"{CORE}/datasets/report.py",
        "if n >= n_rows > 1)",
        "if n > n_rows > 1)",
        "tests/core/datasets",
    ),
    Place(
        f"{CORE}/datasets/serialisation.py",
        "if len(indptr) == 0 or indptr[0] != 0 or indptr[-1] != len(indices) or (indptr[1:] < indptr[:-1]).any():",
        "if len(indptr) == 0 or indptr[0] != 0 or indptr[-1] != len(indices):",
        "tests/core/datasets",
    ),
    Place(
        f"{CORE}/datasets/formats/arff.py",
        'if text.count("}") != 1 or not text.endswith("}"):',
        'if not text.endswith("}"):',
        "tests/core/datasets",
    ),
    Place(
        f"{CORE}/datasets/formats/example_rows.py",
        'if self.decimal not in (None, ".", ","):',
        "if self.decimal is None:",
        "tests/core/datasets",
    ),
    Place(
        f"{SERVICE}/storage/blob_collection.py",
        "await self.delete(self._named(before) - self._named(after))",
        "pass",
        "tests/service/storage tests/service/online/history tests/service/trained",
    ),
    Place(
        f"{SERVICE}/storage/blob_collection.py",
        "if key not in named and is_old(",
        "if is_old(",
        "tests/service/storage tests/service/trained tests/service/online/history",
    ),
    Place(
        f"{SERVICE}/storage/gate.py",
        "if found > FORMAT:",
        "if found > FORMAT + 1:",
        "tests/service/storage tests/service/models",
    ),
    Place(
        f"{SERVICE}/storage/redis/client/connection.py",
        "if self._trying or time.monotonic() < self._try_at:",
        "if time.monotonic() < self._try_at:",
        "tests/service/storage",
    ),
    Place(
        f"{SERVICE}/models/log_watcher.py",
        "is_after(position, end)",
        "not is_after(end, position)",
        "tests/service/models",
    ),
    Place(
        f"{SERVICE}/models/membership.py",
        "if before.age < EXPIRY_SECONDS or not",
        "if not",
        "tests/service/models",
    ),
    Place(
        f"{SERVICE}/models/eviction.py",
        "or not replica.evictable or replica.used_at != used_at:",
        "or not replica.evictable:",
        "tests/service/models",
    ),
    Place(
        f"{SERVICE}/models/restarts.py",
        "pause, position = min(2 * before.pause, most), before.position",
        "pause, position = before.pause, before.position",
        "tests/service/models",
    ),
    Place(
        f"{SERVICE}/online/updates/files.py",
        "            stored.discard(SEED)  # the blob belongs to another position\n",
        "            pass\n",
        "tests/service/online",
    ),
    Place(
        f"{SERVICE}/online/successor/promotion.py",
        "position_key(to) >= key or position_key(entry) <= key for entry",
        "position_key(entry) <= key for entry",
        "tests/service/models tests/service/online tests/service/api",
    ),
    Place(
        f"{SERVICE}/online/successor/rewriter.py",
        "left = [entry for entry in entries if position_key(entry.position) > position_key(begin)]",
        "left = [entry for entry in entries if position_key(entry.position) >= position_key(begin)]",
        "tests/service/models tests/service/online",
    ),
    Place(
        f"{SERVICE}/online/prediction_store.py",
        "since_ms < timestamp_of(id) <= until_ms",
        "since_ms <= timestamp_of(id) <= until_ms",
        "tests/service/online tests/service/webhooks",
    ),
    Place(
        f"{SERVICE}/webhooks/sources.py",
        "if position_key(event.position) <= position_key(self.since):",
        "if position_key(event.position) < position_key(self.since):",
        "tests/service/webhooks",
    ),
    Place(
        f"{SERVICE}/webhooks/sender.py",
        "return plain.is_global and not plain.is_multicast",
        "return plain.is_global",
        "tests/service/webhooks",
    ),
    Place(
        f"{SERVICE}/access/keyring.py",
        "if newer is not None and key.revision < newer.revision:",
        "if newer is not None:",
        "tests/service/access",
    ),
    Place(
        f"{SERVICE}/access/keyring.py",
        "elif known is None or known.key.revision < key.revision:",
        "else:",
        "tests/service/access",
    ),
    Place(
        f"{SERVICE}/access/keyring.py",
        "if not is_right or holder is None:",
        "if holder is None:",
        "tests/service/access",
    ),
    Place(
        f"{SERVICE}/access/rates.py",
        "lacking = min(n, self.size) - self._level",
        "lacking = n - self._level",
        "tests/service/access",
    ),
    Place(
        f"{SERVICE}/trained/active_version.py",
        "position_key(self._unreported[0].position) <= here",
        "position_key(self._unreported[0].position) < here",
        "tests/service/trained tests/service/api",
    ),
    Place(
        f"{SERVICE}/models/registry.py",
        "if not leads or record not in followers[:MAX_FOLLOWERS]:",
        "if record not in followers[:MAX_FOLLOWERS]:",
        "tests/service/models tests/service/online",
    ),
)
