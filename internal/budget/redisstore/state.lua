-- state.lua: how a counter is stored and read.
-- The same in Go: budget/state.go; rules.go here writes RULES.
--
-- A counter is stored as STATE; its five last numbers are, by kind,
--   bucket, pacing  num, den, bank, level (units × den), at, followed by the
--                   claim, if there is one: claimed, claimed_at, claim_ends
--   calendar        mark, start, end, next, used
--   window          window, start, used, prev, 0
--   log             window, used, at, 0, 0, followed by (at, amount) pairs
--   slots           0, 0, 0, 0, 0
-- Rules travel as RULES; their three last numbers are num, den, bank of a
-- bucket, start, end, next of a calendar period, window, 0, 0 of the sliding ones.

-- reset is the time until the counter is full or its period ends, in ms.
local function reset(c, now)
  local k = c.kind
  if k <= PACING then return until_level(c, c.capacity * c.den, now) end
  if k == CALENDAR then return max(0, c.stop - now) end
  if k == WINDOW then
    if c.used > 0 then return max(0, c.start + 2 * c.window - now) end
    if c.prev > 0 then return max(0, c.start + c.window - now) end
  elseif k == LOG and #c.log > 0 then
    return max(0, c.log[#c.log - 1] + c.window - now)
  end
  return 0
end

-- life is how long the counter must be kept, in ms.
local function life(c, now)
  local l = max(reset(c, now), c.paused - now)
  if c.kind <= PACING and c.claimed > 0 then l = max(l, c.claim_ends - now) end
  if c.empty == 1 then l = FOREVER end
  if c.holds > 0 then l = max(l, c.deadline - now) end
  return l
end

-- decode reads a stored counter. A bucket is made in one piece of sixteen fields:
-- a table that grows is made anew.
local function decode(s)
  local k, empty, version, capacity, debt, holds, open, deadline, paused, v, w, x, y, z = unpack_struct(STATE, s)
  if k <= PACING then
    local c = {kind = k, empty = empty, version = version, capacity = capacity, debt = debt, holds = holds, open = open,
      deadline = deadline, paused = paused, num = v, den = w, bank = x, level = y, at = z, claimed = 0, changed = false}
    if #s > STATE_SIZE then c.claimed, c.claimed_at, c.claim_ends = unpack_struct('<ddd', s, STATE_SIZE + 1) end
    return c
  end
  local c = {kind = k, empty = empty, version = version, capacity = capacity, debt = debt, holds = holds, open = open,
    deadline = deadline, paused = paused}
  if k == CALENDAR then
    c.mark, c.start, c.stop, c.next, c.used = v, w, x, y, z
  elseif k == WINDOW then
    c.window, c.start, c.used, c.prev = v, w, x, y
  elseif k == LOG then
    c.window, c.used, c.at, c.log = v, w, x, {}
    local n, pos = 0, STATE_SIZE + 1
    while pos < #s do
      c.log[n + 1], c.log[n + 2], pos = unpack_struct('<dd', s, pos)
      n = n + 2
    end
  end
  return c
end

local function encode(c)
  local k, v, w, x, y, z = c.kind, 0, 0, 0, 0, 0
  if k <= PACING then
    v, w, x, y, z = c.num, c.den, c.bank, c.level, c.at
  elseif k == CALENDAR then
    v, w, x, y, z = c.mark, c.start, c.stop, c.next, c.used
  elseif k == WINDOW then
    v, w, x, y = c.window, c.start, c.used, c.prev
  elseif k == LOG then
    v, w, x = c.window, c.used, c.at
  end
  local s = pack(STATE, k, c.empty, c.version, c.capacity, c.debt, c.holds, c.open, c.deadline, c.paused, v, w, x, y, z)
  if k <= PACING and c.claimed > 0 then
    s = s .. pack('<ddd', c.claimed, c.claimed_at, c.claim_ends)
  elseif k == LOG then
    local parts = {s}
    for i = 1, #c.log, 2 do parts[#parts + 1] = pack('<dd', c.log[i], c.log[i + 1]) end
    s = table.concat(parts)
  end
  return s
end

-- rules_at reads the i-th rules of a string of them.
local function rules_at(s, i)
  local kind, empty, version, capacity, debt, x, y, z = unpack_struct(RULES, s, (i - 1) * RULES_SIZE + 1)
  return {kind = kind, empty = empty, version = version, capacity = capacity, debt = debt, x = x, y = y, z = z}
end

-- open_counter is the counter that is stored as s, or a new one, at now, under the
-- i-th of the rules if they are newer; those of a calendar have the period, too.
local function open_counter(s, rules, i, now)
  if not s then return new(rules_at(rules, i), now) end
  local c = decode(s)
  if rules and (c.kind == CALENDAR or unpack_struct('<d', rules, (i - 1) * RULES_SIZE + 3) ~= c.version) then
    advance(c, rules_at(rules, i), now)
  else
    advance(c, nil, now)
  end
  return c
end

-- save writes a counter that changed.
local function save(key, c, now)
  if c.changed then call('SET', key, encode(c), 'PX', int(life(c, now) + KEEP)) end
end
