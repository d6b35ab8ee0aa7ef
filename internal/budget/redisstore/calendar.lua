-- calendar.lua: calendar periods. The same in Go: budget/calendar.go.
--
-- Of the rules x, y, z are start, end, next of the period that the sender is in.
-- Stored: mark, start, end, next, used, followed by prev_mark and prev, the mark of
-- the period before and what was used in it, if that was anything.

CALENDAR = COUNTED

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

function CALENDAR.fresh(c, r, now)
  c.start, c.stop, c.next = period(r.x, r.y, r.z, now)
  c.mark, c.used, c.prev_mark, c.prev = c.start, 0, 0, 0
end

-- advance moves the counter to the period that now is in, by the bounds of own
-- or, without it, by the counter's.
function CALENDAR.advance(c, own, now)
  if now < c.start and now >= c.start - CLOCK_SLACK then return end
  local over = now >= c.stop
  if now < c.start then c.changed = true end
  local s, e, n = c.start, c.stop, c.next
  if own then
    s, e, n = own.x, own.y, own.z
  elseif not over then
    return
  end
  c.start, c.stop, c.next = period(s, e, n, now)
  if over then
    c.prev_mark, c.prev = c.mark, c.mark < c.start and c.used or 0
    c.mark, c.used, c.open = c.start, 0, 0
  elseif c.prev > 0 and c.start <= c.prev_mark then
    c.mark, c.used = c.prev_mark, min(c.prev + c.used, c.capacity + c.debt)
    c.prev = 0
  end
  if c.prev == 0 then c.prev_mark = 0 end
end

function CALENDAR.adopt(c, r)
  c.used = min(c.used, r.capacity + r.debt)
  c.prev = min(c.prev, r.capacity + r.debt)
end

function CALENDAR.judge(c, cost, now)
  if cost > c.capacity then return NEVER_FITS, 0 end
  if cost == 0 or cost <= c.capacity - c.used then return GRANTED, 0 end
  return SPENT, max(0, c.stop - now)
end

function CALENDAR.use(c, n, now)
  c.used = c.used + n
  return c.mark
end

function CALENDAR.refund(c, mark, n)
  if mark == c.mark then c.used = max(0, c.used - n) end
end

function CALENDAR.held(c, taken, noted, mark)
  if mark ~= c.mark then return 0 end
  return taken - min(noted, taken)
end

function CALENDAR.reset(c, now)
  return max(0, c.stop - now)
end

function CALENDAR.load(c, s, v, w, x, y, z)
  c.mark, c.start, c.stop, c.next, c.used, c.prev_mark, c.prev = v, w, x, y, z, 0, 0
  if #s > STATE_SIZE then c.prev_mark, c.prev = unpack_struct('<dd', s, STATE_SIZE + 1) end
end

function CALENDAR.dump(c)
  local before = c.prev > 0 and pack('<dd', c.prev_mark, c.prev)
  return c.mark, c.start, c.stop, c.next, c.used, before
end
