-- counter.lua: the arithmetic of counters, prepended to every script.
--
-- The same arithmetic, function by function, is in internal/budget: counter.go,
-- bucket.go, pacing.go, calendar.go, window.go, log.go, slots.go. oracle_test.go
-- holds them equal. All numbers are integers below 2^53; budget.Validate proves
-- it. Numbers go into commands through int(), never through tostring or '..'.
--
-- A counter is stored as STATE; its five last numbers are, by kind,
--   bucket, pacing  num, den, bank, level (units × den), at
--   calendar        mark, start, end, next, used
--   window          window, start, used, prev, 0
--   log             window, used, at, 0, 0, followed by (at, amount) pairs
--   slots           0, 0, 0, 0, 0
-- Rules travel as RULES; their three last numbers are num, den, bank of a
-- bucket, start, end, next of a calendar period, window, 0, 0 of the sliding ones.

local floor, ceil, max, min = math.floor, math.ceil, math.max, math.min
local pack, unpack_struct, call = struct.pack, struct.unpack, redis.call

local BUCKET, PACING, CALENDAR, WINDOW, LOG, SLOTS = 1, 2, 3, 4, 5, 6
local GRANTED, EXCEEDED, NO_SLOT, HELD_BACK, SPENT, NEVER_FITS = 0, 1, 2, 3, 4, 5
local STATE, STATE_SIZE = '<BBdddddddddddd', 98
local RULES, RULES_SIZE = '<BBdddddd', 50
local CLOCK_SLACK = 5000
local FOREVER = 400 * 24 * 3600 * 1000
local KEEP = 60000 -- how long a counter is kept beyond what it needs, ms

local function int(n) return string.format('%.0f', n) end

local function ceildiv(a, b) return floor((a + b - 1) / b) end

-- clock is the store's time in ms; a test may name another.
local function clock(given)
  given = tonumber(given)
  if given > 0 then return given end
  local t = call('TIME')
  return t[1] * 1000 + floor(t[2] / 1000)
end

-- room is how much can still be charged before the debt is at its bound.
local function room(c)
  if c.kind <= PACING then return floor((c.level + c.debt * c.den) / c.den) end
  return max(0, c.capacity + c.debt - c.used)
end

-- charge takes n or what there is room for, and returns what it took.
local function charge(c, n)
  n = min(n, max(0, room(c)))
  if c.kind <= PACING then c.level = c.level - n * c.den else c.used = c.used + n end
  return n
end

-- append notes n in a log at now and returns the moment it is listed under.
local function append(c, n, now)
  local at = max(now, c.at)
  if n == 0 then return at end
  c.used = c.used + n
  local log = c.log
  if log[#log - 1] == at then
    log[#log] = log[#log] + n
  else
    log[#log + 1] = at
    log[#log + 1] = n
  end
  return at
end

-- period is the calendar period that now is in, from bounds s, e, n.
local function period(s, e, n, now)
  if now < s then
    local length = e - s
    local start = s - ceildiv(s - now, length) * length
    return start, start + length, start + 2 * length
  end
  if now < e then return s, e, n end
  local length = n - e
  local start = e + floor((now - e) / length) * length
  return start, start + length, start + 2 * length
end

-- new is a counter that nobody has used.
local function new(r, now)
  local c = {kind = r.kind, empty = r.empty, version = r.version, capacity = r.capacity, debt = r.debt,
    holds = 0, open = 0, deadline = 0, paused = 0}
  local k = r.kind
  if k <= PACING then
    c.num, c.den, c.bank = r.x, r.y, r.z
    c.at, c.level = now, r.empty == 1 and 0 or r.capacity * r.y
  elseif k == CALENDAR then
    c.start, c.stop, c.next = period(r.x, r.y, r.z, now)
    c.mark, c.used = c.start, r.empty == 1 and r.capacity or 0
  elseif k == WINDOW then
    c.window, c.start, c.used, c.prev = r.x, now - now % r.x, r.empty == 1 and r.capacity or 0, 0
  elseif k == LOG then
    c.window, c.used, c.at, c.log = r.x, 0, now, {}
    if r.empty == 1 then append(c, r.capacity, now) end
  end
  c.changed = r.empty == 1
  return c
end

local function refill(c, now)
  local elapsed = now - c.at
  if elapsed < 0 then
    if elapsed < -CLOCK_SLACK then c.at, c.changed, c.rebased = now, true, true end
    return
  end
  c.at = now
  local full = c.capacity
  if c.bank > 0 then full = min(full, c.bank * c.capacity - c.open) end
  if full < 0 then return end
  full = full * c.den
  if c.level >= full then return end
  if elapsed >= ceildiv(full - c.level, c.num) then
    c.level = full
  else
    c.level = c.level + elapsed * c.num
  end
end

-- turn moves a calendar counter to the period that now is in, by bounds s, e, n
-- or, without s, by its own.
local function turn(c, s, e, n, now)
  if now < c.start and now >= c.start - CLOCK_SLACK then return end
  local over = now >= c.stop
  if now < c.start then c.changed, c.rebased = true, true end
  if not s then
    if not over then return end
    s, e, n = c.start, c.stop, c.next
  end
  c.start, c.stop, c.next = period(s, e, n, now)
  if over then c.mark, c.used, c.open = c.start, 0, 0 end
end

local function slide(c, now)
  local start = now - now % c.window
  if now < c.start - CLOCK_SLACK then
    c.start, c.changed, c.rebased = start, true, true
  elseif now < c.start or start == c.start then
    return
  elseif start == c.start + c.window then
    c.start, c.prev, c.used = start, c.used, 0
  else
    c.start, c.prev, c.used = start, 0, 0
  end
end

local function expire(c, now)
  local log = c.log
  if now < c.at - CLOCK_SLACK then
    c.at, c.changed, c.rebased = now, true, true
    local late = 0
    while #log > 0 and log[#log - 1] >= now do
      late = late + table.remove(log)
      table.remove(log)
    end
    if late > 0 then
      log[#log + 1] = now
      log[#log + 1] = late
    end
  end
  local n = 0
  while log[n + 1] and log[n + 1] + c.window <= now do
    c.used = c.used - log[n + 2]
    n = n + 2
  end
  if n > 0 then
    local rest = {}
    for i = n + 1, #log do rest[i - n] = log[i] end
    c.log = rest
  end
  c.at = max(c.at, now)
end

-- weighted is what a window used in its last length, times its length.
local function weighted(c, now)
  return c.prev * (c.window - max(0, now - c.start)) + c.used * c.window
end

local function remaining(c, now)
  local k = c.kind
  if k <= PACING then return floor(c.level / c.den) end
  if k == WINDOW then return floor((c.capacity * c.window - weighted(c, now)) / c.window) end
  if k == SLOTS then return max(0, c.capacity - c.open) end
  return c.capacity - c.used
end

-- adopt puts the counter under newer rules: what was used stays used.
local function adopt(c, r, now)
  c.changed = true
  if r.kind ~= c.kind then
    local used = c.capacity - remaining(c, now)
    local fresh = new(r, now)
    fresh.holds, fresh.deadline, fresh.paused, fresh.rebased = c.holds, c.deadline, c.paused, c.rebased
    for k in pairs(c) do if k ~= 'key' then c[k] = nil end end
    for k, v in pairs(fresh) do c[k] = v end
    c.changed = true
    if r.empty == 1 then used = used - r.capacity end
    used = min(max(used, 0), r.capacity + r.debt)
    if r.kind <= PACING then
      c.level = c.level - used * c.den
    elseif r.kind == LOG then
      append(c, used, now)
    elseif r.kind ~= SLOTS then
      c.used = c.used + used
    end
    return
  end
  if c.kind <= PACING then
    local units = floor(c.level / c.den)
    local rest = c.level - units * c.den
    units = units + r.capacity - c.capacity
    if units >= r.capacity then
      c.level = r.capacity * r.y
    elseif units < -r.debt then
      c.level = -r.debt * r.y
    else
      c.level = units * r.y + floor(rest * r.y / c.den)
    end
    c.num, c.den, c.bank = r.x, r.y, r.z
  elseif c.kind == CALENDAR or c.kind == WINDOW then
    c.used = min(c.used, r.capacity + r.debt)
    if c.prev then c.prev = min(c.prev, r.capacity + r.debt) end
  end
  c.version, c.capacity, c.debt, c.empty = r.version, r.capacity, r.debt, r.empty
end

-- advance brings the counter to now and, if r is newer, under r. r may be nil.
local function advance(c, r, now)
  local k = c.kind
  if k <= PACING then
    refill(c, now)
  elseif k == CALENDAR then
    if r and r.version >= c.version and r.kind == k then
      turn(c, r.x, r.y, r.z, now)
    else
      turn(c, nil, nil, nil, now)
    end
  elseif k == WINDOW then
    slide(c, now)
  elseif k == LOG then
    expire(c, now)
  end
  if r and r.version > c.version then adopt(c, r, now) end
end

-- until_level is the time until the level is there, exact to the millisecond.
local function until_level(c, level, now)
  if c.level >= level then return 0 end
  return ceildiv(level - c.level, c.num) + max(0, c.at - now)
end

-- faded is how long after its window's start n counts for no more than left.
local function faded(c, n, left)
  if n <= left then return 0 end
  return c.window - floor(left * c.window / n)
end

local function judge_rate(c, cost, now)
  local k = c.kind
  if k == SLOTS then
    if cost > c.capacity then return NEVER_FITS, 0 end
    if cost > c.capacity - c.open then return NO_SLOT, 0 end
    return GRANTED, 0
  end
  if k == PACING then
    local need = min(cost, c.capacity) * c.den
    if cost == 0 or c.level >= need then return GRANTED, 0 end
    return EXCEEDED, until_level(c, need, now)
  end
  if cost > c.capacity then return NEVER_FITS, 0 end
  if cost == 0 then return GRANTED, 0 end
  if k == BUCKET then
    if c.level >= cost * c.den then return GRANTED, 0 end
    local wait = until_level(c, cost * c.den, now)
    if c.bank > 0 and c.bank * c.capacity - c.open < cost then return HELD_BACK, wait end
    return EXCEEDED, wait
  elseif k == CALENDAR then
    if cost <= c.capacity - c.used then return GRANTED, 0 end
    return SPENT, max(0, c.stop - now)
  elseif k == WINDOW then
    if cost * c.window <= c.capacity * c.window - weighted(c, now) then return GRANTED, 0 end
    local left = c.capacity - c.used - cost
    if left >= 0 then return EXCEEDED, c.start + faded(c, c.prev, left) - now end
    return EXCEEDED, c.start + c.window + faded(c, c.used, c.capacity - cost) - now
  end
  if c.used + cost <= c.capacity then return GRANTED, 0 end
  local used = c.used
  for i = 1, #c.log, 2 do
    used = used - c.log[i + 1]
    if used + cost <= c.capacity then return EXCEEDED, max(0, c.log[i] + c.window - now) end
  end
  return EXCEEDED, c.window
end

-- judge tells whether cost would be granted, and if not, in how many ms.
local function judge(c, cost, now)
  local out, wait = judge_rate(c, cost, now)
  if c.paused > now and out ~= NEVER_FITS then
    if out == GRANTED then out = EXCEEDED end
    wait = max(wait, c.paused - now)
  end
  return out, wait
end

-- take takes cost, or what the debt allows, and returns what it took and from
-- which period or moment.
local function take(c, cost, deadline, now)
  local k, taken, mark = c.kind, cost, 0
  if k <= PACING then
    taken = charge(c, cost)
  elseif k == CALENDAR then
    taken, mark = charge(c, cost), c.mark
  elseif k == WINDOW then
    taken, mark = charge(c, cost), c.start
  elseif k == LOG then
    taken = min(cost, room(c))
    mark = append(c, taken, now)
  end
  c.open = c.open + taken
  c.holds = c.holds + 1
  c.deadline = max(c.deadline, deadline)
  c.changed = true
  return taken, mark
end

-- overrun charges n more, as a debt if need be, and returns what it could not.
local function overrun(c, n, now)
  c.changed = true
  if c.kind == SLOTS then return 0 end
  if c.kind == LOG then
    local booked = min(n, room(c))
    append(c, booked, now)
    return n - booked
  end
  return n - charge(c, n)
end

-- holds tells whether what was taken under mark is still part of the counter.
local function holds(c, mark) return c.kind ~= CALENDAR or mark == c.mark end

-- note lowers open by what was reported as used beyond noted.
local function note(c, taken, noted, mark, used)
  if c.kind ~= SLOTS and holds(c, mark) then
    c.open = c.open - (min(used, taken) - min(noted, taken))
    c.changed = true
  end
end

local function refund(c, mark, n)
  local k = c.kind
  if k <= PACING then
    local full = c.capacity * c.den
    if n >= c.capacity + c.debt or n * c.den >= full - c.level then
      c.level = max(c.level, full)
    else
      c.level = c.level + n * c.den
    end
  elseif k == CALENDAR then
    if mark == c.mark then c.used = max(0, c.used - n) end
  elseif k == WINDOW then
    if mark == c.start then
      c.used = max(0, c.used - n)
    elseif mark == c.start - c.window then
      c.prev = max(0, c.prev - n)
    end
  elseif k == LOG then
    for i = 1, #c.log, 2 do
      if c.log[i] == mark then
        n = min(n, c.log[i + 1])
        c.used = c.used - n
        c.log[i + 1] = c.log[i + 1] - n
        if c.log[i + 1] == 0 then
          table.remove(c.log, i)
          table.remove(c.log, i)
        end
        return
      end
    end
  end
end

-- settle ends what was taken: used replaces it. It returns what was not charged.
local function settle(c, taken, noted, mark, used, now)
  c.changed = true
  c.holds = max(0, c.holds - 1)
  if c.kind == SLOTS then
    c.open = max(0, c.open - taken)
    return 0
  end
  if holds(c, mark) then
    c.open = max(0, c.open - (taken - min(noted, taken)))
  end
  if used > taken then return overrun(c, used - taken, now) end
  refund(c, mark, taken - used)
  return 0
end

local function correct(c, at_most, pause, now)
  local left = remaining(c, now)
  if at_most >= 0 and at_most < left then overrun(c, left - at_most, now) end
  if pause > 0 then
    c.paused = max(c.paused, now + pause)
    c.changed = true
  end
end

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
  if c.empty == 1 then l = FOREVER end
  if c.holds > 0 then l = max(l, c.deadline - now) end
  return l
end

-- decode reads a stored counter.
local function decode(s)
  local c = {}
  local v, w, x, y, z
  c.kind, c.empty, c.version, c.capacity, c.debt, c.holds, c.open, c.deadline, c.paused, v, w, x, y, z = unpack_struct(STATE, s)
  local k = c.kind
  if k <= PACING then
    c.num, c.den, c.bank, c.level, c.at = v, w, x, y, z
  elseif k == CALENDAR then
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
  if k == LOG then
    local parts = {s}
    for i = 1, #c.log, 2 do parts[#parts + 1] = pack('<dd', c.log[i], c.log[i + 1]) end
    s = table.concat(parts)
  end
  return s
end

-- rules_at reads the i-th rules of a string of them.
local function rules_at(s, i)
  local r = {}
  r.kind, r.empty, r.version, r.capacity, r.debt, r.x, r.y, r.z = unpack_struct(RULES, s, (i - 1) * RULES_SIZE + 1)
  return r
end

-- open_counter is the counter under key, stored as s or new, at now.
local function open_counter(key, s, r, now)
  local c
  if s then
    c = decode(s)
    advance(c, r, now)
  else
    c = new(r, now)
  end
  c.key = key
  return c
end

-- save writes a counter that changed.
local function save(c, now)
  if c.changed then call('SET', c.key, encode(c), 'PX', int(life(c, now) + KEEP)) end
end

-- describe is a counter as one who asked sees it: outcome, remaining, capacity,
-- open, wait, reset.
local function describe(c, out, wait, now)
  return pack('<BBddddd', out, c.rebased and 1 or 0, remaining(c, now), c.capacity, c.open, wait, reset(c, now))
end
