-- claim.lua: what a refused large request claims of a bucket's refill.
-- The same in Go: budget/claim.go.

-- claim notes that cost was refused and told to wait that long.
local function claim(c, cost, wait, now)
  if c.kind ~= BUCKET or 4 * cost <= c.capacity or cost < c.claimed then return end
  if c.claimed == 0 then c.claimed_at = c.at end
  c.claimed, c.claim_ends, c.changed = cost, now + min(wait, LONGEST_CLAIM) + CLAIM_GRACE, true
end

-- aside is what a request for cost may not take, in units × den.
local function aside(c, cost)
  if cost >= c.claimed or c.level <= 0 then return 0 end
  local half, all = floor((c.at - c.claimed_at) / 2), c.claimed * c.den
  if half < ceildiv(all, c.num) then all = half * c.num end
  return min(all, c.level)
end

-- until_free is the time until a cost that a claim binds would be there.
local function until_free(c, cost, now)
  local halves = ceildiv(cost * c.den - (c.level - aside(c, cost)), c.num)
  local half = 2 * halves - 1 + (c.at - c.claimed_at) % 2 + max(0, c.at - now)
  return min(half, max(c.claim_ends - now, until_level(c, cost * c.den, now)))
end
