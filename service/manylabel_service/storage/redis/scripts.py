"""Lua scripts, each atomic.

They run on Redis 6.2 and later. Those of a model touch keys of one hash tag only. Each returns an array whose first
element is the outcome: ``ok`` or ``gone``, ``trimmed`` (with the position), ``lost``, ``damaged`` (with the position),
and so on.
"""

import hashlib
from collections.abc import Sequence
from typing import Any

from manylabel_service.errors import LogLost, LogSealed, LogTrimmed, ModelGone
from manylabel_service.storage.checksums import damaged_entry
from manylabel_service.storage.protocol import ModelMeta
from manylabel_service.storage.redis.keys import position_of

_POSITIONS = """
local function parts(id)
  local ms, number = string.match(id, '^(%d+)-(%d+)$')
  return tonumber(ms), tonumber(number)
end
local function before(a, b)
  local a_ms, a_number = parts(a)
  local b_ms, b_number = parts(b)
  return a_ms < b_ms or (a_ms == b_ms and a_number < b_number)
end
local trimmed, last, trimmed_link, last_link, sealed = unpack(
  redis.call('HMGET', KEYS[1], 'trimmed', 'last', 'trimmed_link', 'last_link', 'sealed'))
if not trimmed then return {'gone'} end
-- The value of an entry ends with its link.
local function link_of(entry)
  return (struct.unpack('<I4', entry[2][2], #entry[2][2] - 3))
end
-- Why an id is refused, or nil and the link of its entry.
local function refused(id)
  if id == last then return nil, last_link end
  if id == trimmed then return nil, trimmed_link end
  if before(id, trimmed) then return {'trimmed', trimmed} end
  local found = redis.call('XRANGE', KEYS[2], id, id)[1]
  if not found then return {'lost'} end
  return nil, link_of(found)
end
"""

# Entries after a position, up to maximum numbers of entries and bytes, as a flat array of ids and values; whether they
# are the last; and whether the log reaches the expected position. The size of the next step follows from the sizes so
# far, because a step of large entries would block every client.
_PAGE = """
local function page(after, limit, limit_bytes)
  local found, entries, bytes, step, last_entry = {}, 0, 0, 8, nil
  while true do
    local wanted = math.min(step, limit - entries)
    local range = redis.call('XRANGE', KEYS[2], '(' .. after, '+', 'COUNT', wanted)
    for _, entry in ipairs(range) do
      after = entry[1]
      found[#found + 1] = after
      found[#found + 1] = entry[2][2]
      entries = entries + 1
      bytes = bytes + #entry[2][2]
    end
    last_entry = range[#range] or last_entry
    local ended = #range < wanted or after == last
    if ended then
      return found, true, after == last and last_entry ~= nil and link_of(last_entry) == tonumber(last_link)
    end
    if entries >= limit or bytes >= limit_bytes then return found, false, true end
    step = math.max(1, math.min(512, math.floor((limit_bytes - bytes) * entries / (bytes + 1))))
  end
end
"""

NOW = """
local function now_ms()
  local time = redis.call('TIME')
  return time[1] * 1000 + math.floor(time[2] / 1000)
end
"""


class Script:
    """Lua script with its digest for Redis."""

    def __init__(self, *parts: str) -> None:
        self.text = "".join(parts)
        self.digest = hashlib.sha1(self.text.encode(), usedforsecurity=False).hexdigest()


# Number of entries of the stream of changes that are kept at least.
_KEPT = "local KEPT = 10000\n"

# KEYS head, log, changes (not on a cluster). ARGV after, maximum entries and bytes in between, first number, CRC-32 of
# all payloads, incarnation, payloads...
# Ids are made here: each append has its own millisecond, and within it numbers from a random start. A position that was
# lost (Redis was restarted with older data, or failed over) is therefore not assigned again, even if the clock of the
# new master is behind. The millisecond is the time of the entry, and above that of the previous append even if the
# clock is set back. Links are computed as by `checksums.next_link`.
APPEND = Script(
    _POSITIONS,
    _PAGE,
    NOW,
    _KEPT,
    """
local refusal, known_link = refused(ARGV[1])
if refusal then return refusal end
if sealed then return {'sealed'} end
local between, all, whole = {}, true, true
if ARGV[1] ~= last then between, all, whole = page(ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3])) end
if not whole then return {'damaged', last} end
if not all then return {'behind', between, known_link} end
local ms = math.max(now_ms(), parts(last) + 1)
local prefix = string.format('%.0f-', ms)
local unpack_number, pack_number = struct.unpack, struct.pack
local call, key, number, id, link = redis.call, KEYS[2], tonumber(ARGV[4]), nil, last_link
for i = 7, #ARGV do
  id = prefix .. string.format('%.0f', number)
  link = (link * 1000003 + unpack_number('<I4', ARGV[5], 4 * i - 27) + ms + number) % 4294967296
  call('XADD', key, id, 'p', ARGV[i] .. pack_number('<I4', link))
  number = number + 1
end
redis.call('HSET', KEYS[1], 'last', id, 'last_link', link)
if KEYS[3] then call('XADD', KEYS[3], 'MAXLEN', '~', KEPT, '*', 'i', ARGV[6], 'e', id) end
return {'ok', between, known_link, prefix}
""",
)

# KEYS head, log. ARGV link of the last entry, ids and values in turn.
ADOPT = Script(
    _POSITIONS,
    """
for i = 2, #ARGV, 2 do redis.call('XADD', KEYS[2], ARGV[i], 'p', ARGV[i + 1]) end
redis.call('HSET', KEYS[1], 'last', ARGV[#ARGV - 1], 'last_link', ARGV[1])
return {'ok'}
""",
)

# KEYS head. ARGV '1' to seal the log, '0' to remove the seal.
SEAL = Script(
    """
if redis.call('EXISTS', KEYS[1]) == 0 then return {'gone'} end
if ARGV[1] == '1' then redis.call('HSET', KEYS[1], 'sealed', '1') else redis.call('HDEL', KEYS[1], 'sealed') end
return {'ok'}
""",
)

# KEYS head, log. ARGV after, maximum entries, maximum bytes.
READ = Script(
    _POSITIONS,
    _PAGE,
    """
local refusal, known_link = refused(ARGV[1])
if refusal then return refusal end
if ARGV[1] == last then return {'ok', {}, known_link} end
local found, _, whole = page(ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]))
if not whole then return {'damaged', last} end
return {'ok', found, known_link}
""",
)

# KEYS incarnations, heads... ARGV incarnations. Returns the last entry of each log, nothing for a deleted or replaced
# model. The keys share no hash tag: not for a cluster.
ENDS = Script(
    """
local ends = {}
for i, incarnation in ipairs(ARGV) do
  ends[i] = redis.call('HGET', KEYS[1], incarnation) and redis.call('HGET', KEYS[1 + i], 'last')
end
return {'ok', ends}
""",
)

# KEYS changes. ARGV id and text of the last known entry (0-0 for an empty stream, "" if unknown), maximum entries.
# Returns whether no change after it is missing, the id and text of the last entry that was read, and incarnations with
# the last entries of their logs ("" for a deleted model) in turn. If changes may be missing, it skips to the end. An id
# may be assigned again after a loss, but not with the same text, because ids of log entries are never assigned again.
CHANGED = Script(
    _KEPT,
    """
local function text_of(entry) return entry[2][2] .. ' ' .. entry[2][4] end
local key, id, text, found, first = KEYS[1], ARGV[1], ARGV[2], {}, 2
if id == '0-0' then
  first = redis.call('XLEN', key) < KEPT and 1
elseif id == '' then
  first = nil
end
if first then found = redis.call('XRANGE', key, id, '+', 'COUNT', ARGV[3] + 1) end
if first == 2 and not (found[1] and found[1][1] == id and text_of(found[1]) == text) then first = nil end
if not first then found = redis.call('XREVRANGE', key, '+', '-', 'COUNT', 1) end
local last = found[#found]
if last then id, text = last[1], text_of(last) else id, text = '0-0', '' end
local ends, changes = {}, {}
for i = first or 2, #found do ends[found[i][2][2]] = found[i][2][4] end
for incarnation, last_id in pairs(ends) do
  changes[#changes + 1] = incarnation
  changes[#changes + 1] = last_id
end
return {'ok', first and 1 or 0, id, text, changes}
""",
)

# KEYS head, log. ARGV after, maximum entries and bytes. Returns the number of entries, the last one, and whether these
# are all.
COUNT = Script(
    _POSITIONS,
    _PAGE,
    """
if ARGV[1] == last then return {'ok', 0, ARGV[1], 1} end
local found, all = page(ARGV[1], tonumber(ARGV[2]), tonumber(ARGV[3]))
return {'ok', #found / 2, found[#found - 1] or ARGV[1], all and 1 or 0}
""",
)

# KEYS head, log. ARGV through.
TRIM = Script(
    _POSITIONS,
    """
local through = ARGV[1]
if before(last, through) then through = last end
if before(trimmed, through) then
  local entry = redis.call('XREVRANGE', KEYS[2], through, '-', 'COUNT', 1)[1]
  trimmed, trimmed_link = through, entry and link_of(entry) or trimmed_link
  redis.call('HSET', KEYS[1], 'trimmed', trimmed, 'trimmed_link', trimmed_link)
end
return {'ok', trimmed}
""",
)

# Removes the oldest expired predictions in `due`, with their sizes.
_DROP = """
local now = now_ms()
local function size(id) return tonumber(redis.call('HGET', KEYS[3], id) or '0') end
local function drop(limit)
  local ids = redis.call('ZRANGEBYSCORE', KEYS[2], '-inf', now, 'LIMIT', 0, limit)
  for _, id in ipairs(ids) do
    redis.call('HINCRBY', KEYS[3], '', -size(id))
    redis.call('HDEL', KEYS[3], id)
  end
  if #ids > 0 then redis.call('ZREMRANGEBYRANK', KEYS[2], 0, #ids - 1) end
  return #ids
end
"""

# KEYS head, due, sizes. ARGV limit. Removes expired predictions, up to the limit; returns their number, and the
# milliseconds until the next one expires, or -1.
DROP_PREDICTIONS = Script(
    NOW,
    _DROP,
    """
local dropped = drop(ARGV[1])
local due = redis.call('ZRANGE', KEYS[2], 0, 0, 'WITHSCORES')[2]
return {'ok', dropped, due and math.max(0, tonumber(due) - now) or -1}
""",
)

# KEYS head, due, sizes, predictions... ARGV milliseconds, maximum, maximum bytes, ids..., payloads... Expired
# predictions are removed in pieces, because a single step would block every client. Redis frees `due` and `sizes` in
# one step if they expire, so they expire one and two hours after the predictions, when upkeep has emptied them.
PUT_PREDICTIONS = Script(
    NOW,
    _DROP,
    """
if redis.call('EXISTS', KEYS[1]) == 0 then return {'gone'} end
if redis.call('HEXISTS', KEYS[1], 'sealed') == 1 then return {'sealed'} end
if redis.call('EXISTS', KEYS[2]) == 0 then redis.call('UNLINK', KEYS[3]) end
local count = #KEYS - 3
local function after()
  local kept, bytes = redis.call('ZCARD', KEYS[2]), size('')
  for i = 1, count do
    if not redis.call('ZSCORE', KEYS[2], ARGV[3 + i]) then kept = kept + 1 end
    bytes = bytes + #ARGV[3 + count + i] - size(ARGV[3 + i])
  end
  return kept, bytes
end
local most, most_bytes = tonumber(ARGV[2]), tonumber(ARGV[3])
drop(2 * count + 64)
local kept, bytes = after()
while (kept > most or bytes > most_bytes) and drop(count + 64) > 0 do kept, bytes = after() end
if kept > most then return {'full', 'number'} end
if bytes > most_bytes then return {'full', 'bytes'} end
for i = 1, count do
  redis.call('SET', KEYS[3 + i], ARGV[3 + count + i], 'PX', ARGV[1])
  redis.call('ZADD', KEYS[2], now + tonumber(ARGV[1]), ARGV[3 + i])
  redis.call('HSET', KEYS[3], ARGV[3 + i], #ARGV[3 + count + i])
end
redis.call('HSET', KEYS[3], '', bytes)
for i = 2, 3 do
  local milliseconds = tonumber(ARGV[1]) + (i - 1) * 3600000
  if redis.call('PTTL', KEYS[i]) < milliseconds then redis.call('PEXPIRE', KEYS[i], milliseconds) end
end
return {'ok', bytes}
""",
)

# KEYS head, predictions...
GET_PREDICTIONS = Script(
    """
if redis.call('EXISTS', KEYS[1]) == 0 then return {'gone'} end
local found = {}
for i = 2, #KEYS do found[i - 1] = redis.call('GET', KEYS[i]) end
return {'ok', found}
""",
)

# KEYS head, due. ARGV number, id or "". Expired predictions that are still listed are at the other end.
KEPT_IDS = Script(
    NOW,
    """
if redis.call('EXISTS', KEYS[1]) == 0 then return {'gone'} end
local first = 0
if ARGV[2] ~= '' then
  local rank = redis.call('ZREVRANK', KEYS[2], ARGV[2])
  if not rank then return {'ok', {}} end
  first = rank + 1
end
local ids, now = {}, now_ms()
local found = redis.call('ZREVRANGE', KEYS[2], first, first + tonumber(ARGV[1]) - 1, 'WITHSCORES')
for i = 1, #found, 2 do
  if tonumber(found[i + 1]) > now then ids[#ids + 1] = found[i] end
end
return {'ok', ids}
""",
)

# KEYS head, due. ARGV number. Removes at most this number of predictions of a deleted model.
PURGE_PREDICTIONS = Script(
    """
local model = string.sub(KEYS[1], 1, -5)
local base = model .. 'pred:'
redis.call('UNLINK', model .. 'sizes')
local popped = redis.call('ZPOPMIN', KEYS[2], ARGV[1])
for i = 1, #popped, 2 do redis.call('UNLINK', base .. popped[i]) end
return {'ok', #popped}
""",
)

# KEYS last, staged. ARGV name. An incarnation is the time in milliseconds, or one more than the last, so no incarnation
# is used twice even if Redis lost its data.
PREPARE = Script(
    NOW,
    """
local incarnation = math.max(now_ms(), tonumber(redis.call('GET', KEYS[1]) or '0') + 1)
local text = string.format('%.0f', incarnation)
redis.call('SET', KEYS[1], text)
redis.call('HSET', KEYS[2], text, ARGV[1])
return {'ok', text}
""",
)

# KEYS models, staged, gone, changes, names, used, followers, incarnations. ARGV for each model: name, incarnation or ''
# for a new name, that of the successor, its spec, members of `followers` for the model and for the successor or ''.
NAME = Script(
    NOW,
    _KEPT,
    """
local done = true
for i = 1, #ARGV, 6 do
  done = done and redis.call('HGET', KEYS[1], ARGV[i]) == ARGV[i + 2] .. ' ' .. ARGV[i + 3]
end
if done then return {'ok'} end
for i = 1, #ARGV, 6 do
  local value, number = redis.call('HGET', KEYS[1], ARGV[i]), tostring((i - 1) / 6)
  if value and ARGV[i + 1] == '' then return {'exists', number} end
  if ARGV[i + 1] ~= '' and (not value or string.match(value, '^%d+') ~= ARGV[i + 1]) then return {'gone', number} end
  if ARGV[i + 1] ~= ARGV[i + 2] and redis.call('HEXISTS', KEYS[2], ARGV[i + 2]) == 0 then return {'late', number} end
end
for i = 1, #ARGV, 6 do
  redis.call('HSET', KEYS[1], ARGV[i], ARGV[i + 2] .. ' ' .. ARGV[i + 3])
  redis.call('HDEL', KEYS[2], ARGV[i + 2])
  if ARGV[i + 1] == '' then
    redis.call('ZADD', KEYS[5], 0, ARGV[i])
    redis.call('ZADD', KEYS[6], now_ms(), ARGV[i])
  end
  redis.call('HDEL', KEYS[8], ARGV[i + 1])
  redis.call('HSET', KEYS[8], ARGV[i + 2], ARGV[i])
  if ARGV[i + 4] ~= '' then redis.call('ZREM', KEYS[7], ARGV[i + 4]) end
  if ARGV[i + 5] ~= '' then redis.call('ZADD', KEYS[7], 0, ARGV[i + 5]) end
  if ARGV[i + 1] ~= '' and ARGV[i + 1] ~= ARGV[i + 2] then
    redis.call('HSET', KEYS[3], ARGV[i + 1], ARGV[i])
    redis.call('XADD', KEYS[4], 'MAXLEN', '~', KEPT, '*', 'i', ARGV[i + 1], 'e', '')
  end
end
return {'ok'}
""",
)

# KEYS staged, gone. ARGV name, incarnation.
DISCARD = Script(
    """
if redis.call('HDEL', KEYS[1], ARGV[2]) == 0 then return {'late'} end
redis.call('HSET', KEYS[2], ARGV[2], ARGV[1])
return {'ok'}
""",
)

# KEYS models, gone, changes, names, used, followers, incarnations. ARGV name, incarnation, member of `followers`, '1'
# if the record is damaged, so that even its incarnation may be wrong.
UNNAME = Script(
    _KEPT,
    """
local value = redis.call('HGET', KEYS[1], ARGV[1])
local is_there = value and string.match(value, '^%d+') == ARGV[2]
if not is_there and ARGV[4] ~= '1' then return {'gone'} end
redis.call('HDEL', KEYS[1], ARGV[1])
redis.call('ZREM', KEYS[4], ARGV[1])
redis.call('ZREM', KEYS[5], ARGV[1])
redis.call('ZREM', KEYS[6], ARGV[3])
redis.call('HDEL', KEYS[7], ARGV[2])
if not is_there then return {'ok'} end
redis.call('HSET', KEYS[2], ARGV[2], ARGV[1])
redis.call('XADD', KEYS[3], 'MAXLEN', '~', KEPT, '*', 'i', ARGV[2], 'e', '')
return {'ok'}
""",
)

# KEYS gone, staged. ARGV milliseconds. Models that have no name by then count as deleted. Returns all deleted ones.
ABANDONED = Script(
    NOW,
    """
local oldest = now_ms() - tonumber(ARGV[1])
local staged = redis.call('HGETALL', KEYS[2])
for i = 1, #staged, 2 do
  if tonumber(staged[i]) < oldest then
    redis.call('HDEL', KEYS[2], staged[i])
    redis.call('HSET', KEYS[1], staged[i], staged[i + 1])
  end
end
return {'ok', redis.call('HGETALL', KEYS[1])}
""",
)

# KEYS models, staged, incarnations. ARGV incarnations. Returns those of models and successors, with the names. A
# damaged record may have a wrong incarnation; its model counts.
EXISTING = Script(
    """
local there = {}
for i, incarnation in ipairs(ARGV) do
  local name = redis.call('HGET', KEYS[3], incarnation)
  local value = name and redis.call('HGET', KEYS[1], name)
  local number = value and (string.match(value, '^%d+') or '')
  local exists = value and (number == incarnation or redis.call('HGET', KEYS[3], number) ~= name)
  if not exists then name = redis.call('HGET', KEYS[2], incarnation) end
  if name then
    there[#there + 1] = incarnation
    there[#there + 1] = name
  end
end
return {'ok', there}
""",
)

# KEYS models, names or followers. ARGV lexical range, limit, length of the text before each name. Returns names and
# values.
LIST_MODELS = Script(
    """
local names = redis.call('ZRANGEBYLEX', KEYS[2], ARGV[1], ARGV[2], 'LIMIT', 0, ARGV[3])
local values = {}
for i, name in ipairs(names) do
  names[i] = string.sub(name, 1 + tonumber(ARGV[4]))
  values[i] = redis.call('HGET', KEYS[1], names[i])
end
return {'ok', names, values}
""",
)

# KEYS models, used. ARGV time and name before which the list begins, limit. Returns names, values and times, and the
# time now.
RECENT_MODELS = Script(
    NOW,
    """
local names, values, times = {}, {}, {}
local time, limit, offset = tonumber(ARGV[1]), tonumber(ARGV[3]), 0
while true do
  local some = redis.call('ZREVRANGEBYSCORE', KEYS[2], ARGV[1], '-inf', 'WITHSCORES', 'LIMIT', offset, limit)
  for i = 1, #some, 2 do
    if tonumber(some[i + 1]) < time or some[i] < ARGV[2] then
      local n = #names + 1
      names[n], values[n], times[n] = some[i], redis.call('HGET', KEYS[1], some[i]), some[i + 1]
      if n == limit then return {'ok', names, values, times, now_ms()} end
    end
  end
  if #some == 0 then return {'ok', names, values, times, now_ms()} end
  offset = offset + limit
end
""",
)

# KEYS used. ARGV names and milliseconds in turn.
USE = Script(
    NOW,
    """
for i = 1, #ARGV, 2 do redis.call('ZADD', KEYS[1], 'XX', 'GT', now_ms() - tonumber(ARGV[i + 1]), ARGV[i]) end
return {'ok'}
""",
)


def check(answer: Sequence[Any], record: ModelMeta, position: str) -> None:
    """Raise the error of a refusal."""
    match answer[0]:
        case "gone":
            raise ModelGone(record.name, record.incarnation)
        case "sealed":
            raise LogSealed(name=record.name)
        case "trimmed":
            raise LogTrimmed(record.name, position, position_of(answer[1].decode()))
        case "lost":
            raise LogLost(record.name, position)
        case "damaged":
            raise damaged_entry(record.name, position_of(answer[1].decode()))
