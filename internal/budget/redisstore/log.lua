-- log.lua: sliding logs, as lists of moment, amount, moment, amount…
-- The same in Go: budget/log.go.

-- append notes n in a log at now and returns the moment it is listed under.
local function append(c, n, now)
  local at = max(now, c.at)
  if n == 0 then return at end
  c.used = c.used + n
  local log = c.log
  if log[#log - 1] == at then
    log[#log] = log[#log] + n
  else
    log[#log + 1] = at
    log[#log + 1] = n
  end
  return at
end

local function expire(c, now)
  local log = c.log
  if now < c.at - CLOCK_SLACK then
    c.at, c.changed = now, true
    local late = 0
    while #log > 0 and log[#log - 1] >= now do
      late = late + table.remove(log)
      table.remove(log)
    end
    if late > 0 then
      log[#log + 1] = now
      log[#log + 1] = late
    end
  end
  local n = 0
  while log[n + 1] and log[n + 1] + c.window <= now do
    c.used = c.used - log[n + 2]
    n = n + 2
  end
  if n > 0 then
    local rest = {}
    for i = n + 1, #log do rest[i - n] = log[i] end
    c.log = rest
  end
  c.at = max(c.at, now)
end
