-- window.lua: sliding windows. The same in Go: budget/window.go.
--
-- Of the rules x is the window. Stored: window, start, used, prev, 0.

WINDOW = COUNTED

-- counted is what was used in the last length of a window.
local function counted(c, now)
  return floor(c.prev * (c.window - max(0, now - c.start)) / c.window) + c.used
end

-- faded is how long after its window's start n counts for no more than left.
local function faded(c, n, left)
  if n <= left then return 0 end
  return c.window - floor(((left + 1) * c.window - 1) / n)
end

function WINDOW.fresh(c, r, now)
  c.window, c.start, c.used, c.prev = r.x, now - now % r.x, 0, 0
end

function WINDOW.advance(c, own, now)
  local start = now - now % c.window
  if now < c.start - CLOCK_SLACK then
    c.start, c.changed = start, true
  elseif now < c.start or start == c.start then
    return
  elseif start == c.start + c.window then
    c.start, c.prev, c.used = start, c.used, 0
  else
    c.start, c.prev, c.used = start, 0, 0
  end
end

function WINDOW.adopt(c, r)
  c.used = min(c.used, r.capacity + r.debt)
  c.prev = min(c.prev, r.capacity + r.debt)
end

function WINDOW.judge(c, cost, now)
  if cost > c.capacity then return NEVER_FITS, 0 end
  if cost == 0 or cost <= c.capacity - counted(c, now) then return GRANTED, 0 end
  local left = c.capacity - c.used - cost
  if left >= 0 then return EXCEEDED, c.start + faded(c, c.prev, left) - now end
  return EXCEEDED, c.start + c.window + faded(c, c.used, c.capacity - cost) - now
end

function WINDOW.use(c, n, now)
  c.used = c.used + n
  return c.start
end

function WINDOW.refund(c, mark, n)
  if mark == c.start then
    c.used = max(0, c.used - n)
  elseif mark == c.start - c.window then
    c.prev = max(0, c.prev - n)
  end
end

function WINDOW.remaining(c, now)
  return c.capacity - counted(c, now)
end

function WINDOW.reset(c, now)
  if c.used > 0 then return max(0, c.start + 2 * c.window - now) end
  if c.prev > 0 then return max(0, c.start + c.window - now) end
  return 0
end

function WINDOW.load(c, s, v, w, x, y, z)
  c.window, c.start, c.used, c.prev = v, w, x, y
end

function WINDOW.dump(c)
  return c.window, c.start, c.used, c.prev, 0
end
