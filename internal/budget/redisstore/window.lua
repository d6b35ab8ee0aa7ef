-- window.lua: sliding windows. The same in Go: budget/window.go.

local function slide(c, now)
  local start = now - now % c.window
  if now < c.start - CLOCK_SLACK then
    c.start, c.changed, c.rebased = start, true, true
  elseif now < c.start or start == c.start then
    return
  elseif start == c.start + c.window then
    c.start, c.prev, c.used = start, c.used, 0
  else
    c.start, c.prev, c.used = start, 0, 0
  end
end

-- weighted is what a window used in its last length, times its length.
local function weighted(c, now)
  return c.prev * (c.window - max(0, now - c.start)) + c.used * c.window
end

-- faded is how long after its window's start n counts for no more than left.
local function faded(c, n, left)
  if n <= left then return 0 end
  return c.window - floor(left * c.window / n)
end
