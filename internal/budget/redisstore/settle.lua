-- settle.lua: ends a batch of reservations, each on its own, in order.
--
-- KEYS[1]          the base of all keys
-- KEYS[2 ..]       the records
-- ARGV[1]          the time in ms, or 0 for Redis's own
-- ARGV[2]          the settlements: id, mode (0 settle, 1 end by the crash
--                  charge), count, what was used of each line
-- returns          the time; for each settlement 1 if the record was open, and
--                  what was not charged
--
-- The same in Go: memstore/settle.go. It runs when Redis is out of memory, too.

local base, now, blob = KEYS[1], clock(ARGV[1]), ARGV[2]
local records, fenced = recall(base, now)

local used -- of the settlement at hand, by line

local function as_told(rec, i) return used[rec[i + LINE]] or rec[i + TAKEN] end

-- late charges what a reclaimed reservation used beyond what it was charged.
local function late(rec)
  local unbooked = 0
  for i = 0, (rec.n - 1) * WIDTH, WIDTH do
    local n, charged = used[rec[i + LINE]], rec[i + NOTED]
    if rec[i + TAKEN] >= 0 and n and n > charged then
      local c = counters[rec[i + KEY]]
      if c then unbooked = unbooked + overrun(c, n - charged, now) end
      rec[i + NOTED], rec.changed = n, true
    end
  end
  return unbooked
end

local reply, pos = {pack('<d', now)}, 1
for i = 2, #KEYS do
  local id, mode, count
  id, mode, count, pos = unpack_struct('<Bc0BB', blob, pos)
  used = {}
  for j = 1, count do used[j], pos = unpack_struct('<d', blob, pos) end
  local rec, known, unbooked = records[KEYS[i]], 0, 0
  if not rec then
    -- Its reserve may yet arrive: it must find that it is too late.
    records[KEYS[i]] = {status = SETTLED, changed = true}
  else
    rec.id = id
    if rec.status == OPEN and fenced[rec.epoch] then finish(rec, RECLAIMED, crash_charge, now) end
    if rec.status == OPEN then
      known, unbooked = 1, finish(rec, SETTLED, mode == 1 and crash_charge or as_told, now)
    elseif rec.status == RECLAIMED then
      unbooked = late(rec)
    end
  end
  reply[#reply + 1] = pack('<Bd', known, unbooked)
end
write(base, records, now)
return table.concat(reply)
