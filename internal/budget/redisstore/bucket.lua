-- bucket.lua: token buckets and paces. The same in Go: budget/bucket.go, pacing.go.

local function refill(c, now)
  local elapsed = now - c.at
  if elapsed < 0 then
    if elapsed < -CLOCK_SLACK then
      c.at, c.changed = now, true
      c.claimed = 0
    end
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

-- until_level is the time until the level is there, exact to the millisecond.
local function until_level(c, level, now)
  if c.level >= level then return 0 end
  return ceildiv(level - c.level, c.num) + max(0, c.at - now)
end
