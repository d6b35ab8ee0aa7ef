-- judge.lua: a counter is asked, and described. It comes after state.lua.
-- The same in Go: budget/counter.go, state.go.

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
    if c.level - aside(c, cost) >= cost * c.den then return GRANTED, 0 end
    local wait = cost < c.claimed and until_free(c, cost, now) or until_level(c, cost * c.den, now)
    if c.bank > 0 and c.bank * c.capacity - c.open < cost then return HELD_BACK, wait end
    return EXCEEDED, wait
  elseif k == CALENDAR then
    if cost <= c.capacity - c.used then return GRANTED, 0 end
    return SPENT, max(0, c.stop - now)
  elseif k == WINDOW then
    if cost <= c.capacity - counted(c, now) then return GRANTED, 0 end
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

-- describe is a counter as one who asked sees it, the values of DESCRIBED:
-- outcome, remaining, capacity, open, wait, reset.
local function describe(c, out, wait, now)
  return out, remaining(c, now), c.capacity, c.open, wait, reset(c, now)
end
