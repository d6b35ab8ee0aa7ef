-- spend.lua: what is charged or given back later, and how a hold ends. It comes
-- after take.lua.
-- The same in Go: budget/spend.go.

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

-- shrink gives back what was taken beyond keep, but for what was noted, and
-- returns what is still taken.
local function shrink(c, taken, noted, mark, keep)
  keep = max(keep, noted)
  if keep >= taken then return taken end
  if holds(c, mark) then c.open = max(0, c.open - (taken - keep)) end
  refund(c, mark, taken - keep)
  c.changed = true
  return keep
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
