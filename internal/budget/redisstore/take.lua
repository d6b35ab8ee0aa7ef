-- take.lua: what is taken from a counter.
-- The same in Go: budget/spend.go.

-- dispatch room(c)

-- charge takes n or what there is room for. It returns what it took and from
-- which period or moment.
local function charge(c, n, now)
  n = min(n, max(0, room(c)))
  return n, use(c, n, now)
end

-- take takes cost, or what the debt allows, and returns what charge does.
local function take(c, cost, deadline, now)
  local taken, mark = charge(c, cost, now)
  if cost >= c.claimed then c.claimed = 0 end
  c.open = c.open + taken
  c.holds = c.holds + 1
  c.deadline = max(c.deadline, deadline)
  c.changed = true
  return taken, mark
end
