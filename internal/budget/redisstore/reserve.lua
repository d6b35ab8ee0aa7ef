-- reserve.lua: decides a batch of requests, each granted or refused in order.
--
-- KEYS[1]           the base of all keys; with it a cluster finds the slot
-- KEYS[2 .. n+1]    the records of the n requests
-- KEYS[n+2 ..]      the counters that they draw on
-- ARGV[1]           the time in ms, or 0 for Redis's own
-- ARGV[2]           n
-- ARGV[3]           RULES of each counter
-- ARGV[4]           the requests: id, epoch, not_after (0: none), lifetime,
--                   crash, force, lines, parts; each part: counter, line,
--                   enforced, amount
-- ARGV[5 ..]        the epochs
-- returns           the time; for each request a status (0 decided, 1 repeated,
--                   2 conflict, 3 too late, 4 fenced) and, of the first two, each part as
--                   describe() has it
--
-- The same in Go: memstore/reserve.go. Everything is read and decided before
-- anything is written, and no write can fail.

local DECIDED, REPEATED, CONFLICT, TOO_LATE, FENCED = 0, 1, 2, 3, 4

local base, now, n = KEYS[1], clock(ARGV[1]), tonumber(ARGV[2])
local rules, blob = ARGV[3], ARGV[4]
local stored = call('MGET', unpack(KEYS, 2))

local fenced = {}
for i = 5, #ARGV do fenced[i - 4] = call('ZSCORE', base .. ':fenced', ARGV[i]) end

local opened, reply = {}, {pack('<d', now)}
local made, index = {}, {} -- records by key; what to put into each epoch's index
local names = #base + 4 -- where a counter's key begins in its whole key
local name, pending = {}, {} -- of the opened counters

-- The request at hand and, by part, what it asks and is told.
local id, epoch, not_after, lifetime, crash, force, lines, parts
local which, line, enforced, amount, outcome, wait = {}, {}, {}, {}, {}, {}

local function counter(i)
  local c = opened[i]
  if not c then
    c = open_counter(stored[n + i], rules, i, now)
    opened[i], name[i], pending[i] = c, KEYS[n + 1 + i]:sub(names), 0
  end
  return c
end

-- Values that go into one string, of which a record and an answer are made in one
-- piece each; and the formats, by parts. Longer lists grow, once a call.
local values = {0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0}
local records, answers = {}, {}

-- same tells whether a record is of the request.
local function same(rec)
  if rec.epoch ~= ARGV[4 + epoch] or rec.lines ~= lines then return false end
  for i = 1, lines do
    local at = (i - 1) * WIDTH
    counter(which[i])
    if rec[at + ASKED] ~= amount[i] or rec[at + KEY] ~= name[which[i]] then return false end
  end
  return true
end

-- write makes the record of the request, which takes what is granted.
local function write(deadline, owner)
  local v = values
  v[1], v[2], v[3], v[4], v[5], v[6], v[7], v[8], v[9] = OPEN, #owner, owner, now, deadline, not_after, crash, lines, parts
  local j = 9
  for i = 1, parts do
    local taken, mark, own = -1, 0, name[which[i]]
    if outcome[i] == GRANTED or force == 1 then taken, mark = take(opened[which[i]], amount[i], deadline, now) end
    v[j + 1], v[j + 2], v[j + 3], v[j + 4], v[j + 5], v[j + 6], v[j + 7], v[j + 8] = #own, own, line[i], outcome[i], amount[i], taken, 0, mark
    j = j + 8
  end
  records[parts] = records[parts] or HEAD .. string.rep(PART, parts)
  return pack(records[parts], unpack(v, 1, j))
end

-- decide judges the parts together, and takes them if nothing enforced refuses.
local function decide(key)
  local refused = false
  for i = 1, parts do
    local w = which[i]
    local out, after = ask(counter(w), min(pending[w] + amount[i], MAX_EXACT), now)
    outcome[i], wait[i] = out, after
    if out == GRANTED then
      pending[w] = pending[w] + amount[i]
    elseif enforced[i] == 1 then
      refused = true
    end
  end
  for i = 1, parts do pending[which[i]] = 0 end
  if refused then
    for i = 1, parts do
      if enforced[i] == 1 and outcome[i] == EXCEEDED then claim(opened[which[i]], amount[i], wait[i], now) end
    end
    return
  end
  local deadline, owner = now + lifetime, ARGV[4 + epoch]
  made[key] = write(deadline, owner)
  local ids = index[owner] or {}
  ids[#ids + 1] = int(deadline)
  ids[#ids + 1] = id
  index[owner] = ids
end

-- answer tells the request how its parts stand.
local function answer(status)
  local v, j = values, 1
  v[1] = status
  for i = 1, parts do
    v[j + 1], v[j + 2], v[j + 3], v[j + 4], v[j + 5], v[j + 6], v[j + 7] = describe(counter(which[i]), outcome[i], wait[i], now)
    j = j + 7
  end
  answers[parts] = answers[parts] or '<B' .. string.rep(DESCRIBED, parts)
  return pack(answers[parts], unpack(v, 1, j))
end

local pos = 1
for r = 1, n do
  id, epoch, not_after, lifetime, crash, force, lines, parts, pos = unpack_struct('<Bc0BddBBBB', blob, pos)
  for i = 1, parts do which[i], line[i], enforced[i], amount[i], pos = unpack_struct('<HBBd', blob, pos) end
  local key = KEYS[r + 1]
  local known, status = made[key] or stored[r], DECIDED
  known = known and decode_record(known)
  if fenced[epoch] then
    status = FENCED
  elseif known and known.status ~= OPEN then
    status = TOO_LATE
  elseif known then
    status = same(known) and REPEATED or CONFLICT
  elseif not_after > 0 and now > not_after then
    status = TOO_LATE
  end
  if status == DECIDED then
    decide(key)
  elseif status == REPEATED then
    for i = 1, parts do outcome[i], wait[i] = known[(i - 1) * WIDTH + OUTCOME] or GRANTED, 0 end
  end
  reply[r + 1] = status <= REPEATED and answer(status) or pack('<B', status)
end

-- The index first: were its key of another type, nothing would be written. A
-- name in it without a record does no harm.
for owner, ids in pairs(index) do call('ZADD', base .. ':open:' .. owner, unpack(ids)) end
for i, c in pairs(opened) do save(KEYS[n + 1 + i], c, now) end
for key, rec in pairs(made) do
  local _, _, deadline = unpack_struct('<Bc0dd', rec, 2)
  call('SET', key, rec, 'PX', int(deadline - now + RECORD_KEEP))
end
return table.concat(reply)
