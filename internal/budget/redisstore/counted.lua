-- counted.lua: what algorithms share whose counters count used up to capacity.
-- The same in Go: budget/algorithm.go.

function COUNTED.room(c)
  return max(0, c.capacity + c.debt - c.used)
end

function COUNTED.held(c, taken, noted, mark)
  return taken - min(noted, taken)
end

function COUNTED.remaining(c, now)
  return c.capacity - c.used
end
