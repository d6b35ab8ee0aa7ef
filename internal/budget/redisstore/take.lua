-- take.lua: what is taken from a counter.
-- The same in Go: budget/spend.go.

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

-- take takes cost, or what the debt allows, and returns what it took and from
-- which period or moment.
local function take(c, cost, deadline, now)
  local k, taken, mark = c.kind, cost, 0
  if k <= PACING then
    taken = charge(c, cost)
    if cost >= c.claimed then c.claimed = 0 end
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
