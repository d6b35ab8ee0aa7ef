-- calendar.lua: calendar periods. The same in Go: budget/calendar.go.

-- period is the calendar period that now is in, from bounds s, e, n.
local function period(s, e, n, now)
  if now < s then
    local length = e - s
    local start = s - ceildiv(s - now, length) * length
    return start, start + length, start + 2 * length
  end
  if now < e then return s, e, n end
  local length = n - e
  local start = e + floor((now - e) / length) * length
  return start, start + length, start + 2 * length
end

-- turn moves a calendar counter to the period that now is in, by bounds s, e, n
-- or, without s, by its own.
local function turn(c, s, e, n, now)
  if now < c.start and now >= c.start - CLOCK_SLACK then return end
  local over = now >= c.stop
  if now < c.start then c.changed = true end
  if not s then
    if not over then return end
    s, e, n = c.start, c.stop, c.next
  end
  c.start, c.stop, c.next = period(s, e, n, now)
  if over then c.mark, c.used, c.open = c.start, 0, 0 end
end
