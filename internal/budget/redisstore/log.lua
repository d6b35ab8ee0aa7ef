-- log.lua: sliding logs, as lists of moment, amount, moment, amount…
-- The same in Go: budget/log.go.
--
-- Of the rules x is the window. Stored: window, used, at, 0, 0, followed by (at,
-- amount) pairs.

LOG = COUNTED

function LOG.fresh(c, r, now)
  c.window, c.used, c.at, c.log = r.x, 0, now, {}
end

function LOG.advance(c, own, now)
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

function LOG.judge(c, cost, now)
  if cost > c.capacity then return NEVER_FITS, 0 end
  if cost == 0 or c.used + cost <= c.capacity then return GRANTED, 0 end
  local used = c.used
  for i = 1, #c.log, 2 do
    used = used - c.log[i + 1]
    if used + cost <= c.capacity then return EXCEEDED, max(0, c.log[i] + c.window - now) end
  end
  return EXCEEDED, c.window
end

-- use lists n at now and returns the moment that it is listed under.
function LOG.use(c, n, now)
  local at, log = max(now, c.at), c.log
  if n == 0 then return at end
  c.used = c.used + n
  if log[#log - 1] == at then
    log[#log] = log[#log] + n
  else
    log[#log + 1] = at
    log[#log + 1] = n
  end
  return at
end

function LOG.refund(c, mark, n)
  for i = 1, #c.log, 2 do
    if c.log[i] == mark then
      n = min(n, c.log[i + 1])
      c.used = c.used - n
      c.log[i + 1] = c.log[i + 1] - n
      if c.log[i + 1] == 0 then
        table.remove(c.log, i)
        table.remove(c.log, i)
      end
      return
    end
  end
end

function LOG.reset(c, now)
  if #c.log == 0 then return 0 end
  return max(0, c.log[#c.log - 1] + c.window - now)
end

function LOG.load(c, s, v, w, x, y, z)
  c.window, c.used, c.at, c.log = v, w, x, {}
  local n, pos = 0, STATE_SIZE + 1
  while pos < #s do
    c.log[n + 1], c.log[n + 2], pos = unpack_struct('<dd', s, pos)
    n = n + 2
  end
end

function LOG.dump(c)
  local pairs = {}
  for i = 1, #c.log, 2 do pairs[#pairs + 1] = pack('<dd', c.log[i], c.log[i + 1]) end
  return c.window, c.used, c.at, 0, 0, table.concat(pairs)
end
