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

local opened, records, reply = {}, {}, {pack('<d', now)}
local names = #base + 4 -- where a counter's key begins in its whole key

local function counter(i)
  local c = opened[i]
  if not c then
    c = open_counter(KEYS[n + 1 + i], stored[n + i], rules_at(rules, i), now)
    opened[i] = c
  end
  return c
end

local function same(rec, q)
  if rec.epoch ~= ARGV[4 + q.epoch] or rec.lines ~= q.lines then return false end
  for i = 1, q.lines do
    if rec[i].asked ~= q[i].amount or rec[i].key ~= KEYS[n + 1 + q[i].index]:sub(names) then return false end
  end
  return true
end

local function decide(q)
  local refused = false
  for i = 1, #q do
    local p = q[i]
    local c = counter(p.index)
    local pending = c.pending or 0
    p.outcome, p.wait = judge(c, min(pending + p.amount, 9007199254740991), now)
    if p.outcome == GRANTED then
      c.pending = pending + p.amount
    elseif p.enforced == 1 then
      refused = true
    end
  end
  for i = 1, #q do opened[q[i].index].pending = nil end
  if refused then return nil end
  local rec = {status = OPEN, epoch = ARGV[4 + q.epoch], created = now, deadline = now + q.lifetime,
    not_after = q.not_after, crash = q.crash, lines = q.lines, id = q.id}
  for i = 1, #q do
    local p, taken, mark = q[i], -1, 0
    if p.outcome == GRANTED or q.force == 1 then
      taken, mark = take(opened[p.index], p.amount, rec.deadline, now)
    end
    rec[i] = {key = KEYS[n + 1 + p.index]:sub(names), line = p.line, outcome = p.outcome, asked = p.amount,
      taken = taken, noted = 0, mark = mark}
  end
  return rec
end

local pos = 1
for r = 1, n do
  local q, parts = {}
  q.id, q.epoch, q.not_after, q.lifetime, q.crash, q.force, q.lines, parts, pos = unpack_struct('<Bc0BddBBBB', blob, pos)
  for i = 1, parts do
    local p = {}
    p.index, p.line, p.enforced, p.amount, pos = unpack_struct('<HBBd', blob, pos)
    q[i] = p
  end
  local key = KEYS[r + 1]
  local known, status = records[key], DECIDED
  if not known and stored[r] then known = decode_record(stored[r]) end
  if fenced[q.epoch] then
    status = FENCED
  elseif known and known.status ~= OPEN then
    status = TOO_LATE
  elseif known then
    status = same(known, q) and REPEATED or CONFLICT
  elseif q.not_after > 0 and now > q.not_after then
    status = TOO_LATE
  end
  if status == DECIDED then
    records[key] = decide(q)
  elseif status == REPEATED then
    for i = 1, #q do q[i].outcome, q[i].wait = known[i] and known[i].outcome or GRANTED, 0 end
  end
  reply[#reply + 1] = pack('<B', status)
  if status <= REPEATED then
    for i = 1, #q do
      reply[#reply + 1] = describe(counter(q[i].index), q[i].outcome, q[i].wait, now)
    end
  end
end

for _, c in pairs(opened) do save(c, now) end
for key, rec in pairs(records) do
  call('SET', key, encode_record(rec), 'PX', int(rec.deadline - now + RECORD_KEEP))
  call('ZADD', base .. ':open:' .. rec.epoch, int(rec.deadline), rec.id)
end
return table.concat(reply)
