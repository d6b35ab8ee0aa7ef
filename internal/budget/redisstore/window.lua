-- window.lua: sliding windows. The same in Go: budget/window.go.

local function slide(c, now)
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

-- counted is what was used in the last length of a window.
local function counted(c, now)
  return floor(c.prev * (c.window - max(0, now - c.start)) / c.window) + c.used
end

-- faded is how long after its window's start n counts for no more than left.
local function faded(c, n, left)
  if n <= left then return 0 end
  return c.window - floor(((left + 1) * c.window - 1) / n)
end
