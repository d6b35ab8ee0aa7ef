-- counter.lua: a counter of any kind: made, and brought to now.
-- The same in Go: budget/counter.go.

-- new is a counter that nobody has used.
local function new(r, now)
  local c = {kind = r.kind, empty = r.empty, version = r.version, capacity = r.capacity, debt = r.debt,
    holds = 0, open = 0, deadline = 0, paused = 0}
  local k = r.kind
  if k <= PACING then
    c.num, c.den, c.bank, c.claimed = r.x, r.y, r.z, 0
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

local function remaining(c, now)
  local k = c.kind
  if k <= PACING then return floor(c.level / c.den) end
  if k == WINDOW then return c.capacity - counted(c, now) end
  if k == SLOTS then return max(0, c.capacity - c.open) end
  return c.capacity - c.used
end

-- adopt puts the counter under newer rules: what was used stays used.
local function adopt(c, r, now)
  c.changed = true
  if r.kind ~= c.kind then
    local used = c.capacity - remaining(c, now)
    local fresh = new(r, now)
    fresh.holds, fresh.deadline, fresh.paused = c.holds, c.deadline, c.paused
    for k in pairs(c) do c[k] = nil end
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
    c.num, c.den, c.bank, c.claimed = r.x, r.y, r.z, 0
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
    if c.claimed > 0 and now >= c.claim_ends then c.claimed = 0 end
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
