-- slots.lua: what is in flight. The same in Go: budget/slots.go.
--
-- Stored: nothing of its own; open is the count.

function SLOTS.judge(c, cost, now)
  if cost > c.capacity then return NEVER_FITS, 0 end
  if cost > c.capacity - c.open then return NO_SLOT, 0 end
  return GRANTED, 0
end

function SLOTS.room(c)
  return MAX_EXACT
end

function SLOTS.use(c, n, now)
  return 0
end

function SLOTS.held(c, taken, noted, mark)
  return taken -- whatever was used of it
end

function SLOTS.remaining(c, now)
  return max(0, c.capacity - c.open)
end

function SLOTS.reset(c, now)
  return 0
end

function SLOTS.dump(c)
  return 0, 0, 0, 0, 0
end
