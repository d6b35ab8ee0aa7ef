-- spend.lua: what is charged or given back later, and how a hold ends. It comes
-- after take.lua.
-- The same in Go: budget/spend.go.

-- dispatch refund(c, mark, n)
-- dispatch held(c, taken, noted, mark)

-- overrun charges n more, as a debt if need be, and returns what it could not.
local function overrun(c, n, now)
  c.changed = true
  return n - charge(c, n, now)
end

-- note lowers open by what was reported as used beyond noted.
local function note(c, taken, noted, mark, used)
  c.open = c.open - (held(c, taken, noted, mark) - held(c, taken, used, mark))
  c.changed = true
end

-- shrink gives back what was taken beyond keep, but for what was noted, and
-- returns what is still taken.
local function shrink(c, taken, noted, mark, keep)
  keep = max(keep, noted)
  if keep >= taken then return taken end
  c.open = max(0, c.open - (held(c, taken, noted, mark) - held(c, keep, noted, mark)))
  refund(c, mark, taken - keep)
  c.changed = true
  return keep
end

-- settle ends what was taken: used replaces it. It returns what was not charged.
local function settle(c, taken, noted, mark, used, now)
  c.changed = true
  c.holds = max(0, c.holds - 1)
  c.open = max(0, c.open - held(c, taken, noted, mark))
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

-- restart makes c, under r, as if nobody had used it but for what is open.
local function restart(c, r, now)
  local empty, holds, open, deadline = r.empty, c.holds, c.open, c.deadline
  r.empty = 0
  local made = new(r, now)
  for k in pairs(c) do c[k] = nil end
  for k, v in pairs(made) do c[k] = v end
  c.empty, c.holds, c.open, c.deadline, c.changed = empty, holds, open, deadline, true
  use(c, open, now)
end
