-- judge.lua: a counter is asked, and described. It comes after state.lua.
-- The same in Go: budget/counter.go, state.go.

-- dispatch judge(c, cost, now)

-- ask tells whether cost would be granted, and if not, in how many ms.
local function ask(c, cost, now)
  local out, wait = judge(c, cost, now)
  if c.paused > now and out ~= NEVER_FITS then
    if out == GRANTED then out = EXCEEDED end
    wait = max(wait, c.paused - now)
  end
  return out, wait
end

-- describe is a counter as one who asked sees it, the values of DESCRIBED:
-- outcome, remaining, capacity, open, wait, reset, and of a bucket its rate, which a
-- newer file may have changed; else 0.
local function describe(c, out, wait, now)
  return out, remaining(c, now), c.capacity, c.open, wait, reset(c, now), c.kind <= PACING and c.num / c.den or 0
end
