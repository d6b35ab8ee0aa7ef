-- bucket.lua: token buckets. The same in Go: budget/bucket.go.
--
-- Of the rules x, y, z are num, den, bank. Stored: num, den, bank, level (units ×
-- den), at, followed by the claim, if there is one: claimed, claimed_at, claim_ends.

-- until_level is the time until the level is there, exact to the millisecond.
local function until_level(c, level, now)
  if c.level >= level then return 0 end
  return ceildiv(level - c.level, c.num) + max(0, c.at - now)
end

function BUCKET.fresh(c, r, now)
  c.num, c.den, c.bank = r.x, r.y, r.z
  c.at, c.level = now, r.capacity * r.y
end

function BUCKET.advance(c, own, now)
  if c.claimed > 0 and now >= c.claim_ends then c.claimed = 0 end
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

function BUCKET.adopt(c, r)
  local units = floor(c.level / c.den)
  local rest = c.level - units * c.den
  units = units + r.capacity - c.capacity
  if units >= r.capacity then
    c.level = r.capacity * r.y
  elseif units < -r.debt then
    c.level = -r.debt * r.y
  else
    c.level = units * r.y + floor(rest * r.y / c.den)
  end
  c.num, c.den, c.bank, c.claimed = r.x, r.y, r.z, 0
end

function BUCKET.judge(c, cost, now)
  if cost > c.capacity then return NEVER_FITS, 0 end
  if cost == 0 or c.level - aside(c, cost) >= cost * c.den then return GRANTED, 0 end
  local wait = cost < c.claimed and until_free(c, cost, now) or until_level(c, cost * c.den, now)
  if c.bank > 0 and c.bank * c.capacity - c.open < cost then return HELD_BACK, wait end
  return EXCEEDED, wait
end

function BUCKET.room(c)
  return floor((c.level + c.debt * c.den) / c.den)
end

function BUCKET.use(c, n, now)
  c.level = c.level - n * c.den
  return 0
end

function BUCKET.refund(c, mark, n)
  local full = c.capacity * c.den
  if n >= c.capacity + c.debt or n * c.den >= full - c.level then
    c.level = max(c.level, full)
  else
    c.level = c.level + n * c.den
  end
end

function BUCKET.held(c, taken, noted, mark)
  return taken - min(noted, taken)
end

function BUCKET.remaining(c, now)
  return floor(c.level / c.den)
end

function BUCKET.reset(c, now)
  return until_level(c, c.capacity * c.den, now)
end

-- decode has made a bucket's table, in one piece.
function BUCKET.load(c, s, v, w, x, y, z)
  if #s > STATE_SIZE then c.claimed, c.claimed_at, c.claim_ends = unpack_struct('<ddd', s, STATE_SIZE + 1) end
end

function BUCKET.dump(c)
  local claim = c.claimed > 0 and pack('<ddd', c.claimed, c.claimed_at, c.claim_ends)
  return c.num, c.den, c.bank, c.level, c.at, claim
end
