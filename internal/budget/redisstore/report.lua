-- report.lua: notes what open reservations have used so far.
--
-- KEYS[1]          the base of all keys
-- KEYS[2 ..]       the records
-- ARGV[1]          the time in ms, or 0 for Redis's own
-- ARGV[2]          the reports: count, what was used of each line
-- returns          the time
--
-- The same in Go: memstore/settle.go, Report.

local base, now, blob = KEYS[1], clock(ARGV[1]), ARGV[2]
local stored = call('MGET', unpack(KEYS, 2))

local records, fenced = {}, {}
for i = 1, #stored do
  if stored[i] and not records[KEYS[i + 1]] then
    local rec = decode_record(stored[i])
    records[KEYS[i + 1]] = rec
    if rec.epoch and fenced[rec.epoch] == nil then
      fenced[rec.epoch] = call('ZSCORE', base .. ':fenced', rec.epoch)
    end
  end
end
fetch(base, records, now)

local pos, count = 1
for i = 2, #KEYS do
  local used = {}
  count, pos = unpack_struct('<B', blob, pos)
  for j = 1, count do used[j], pos = unpack_struct('<d', blob, pos) end
  local rec = records[KEYS[i]]
  if rec and rec.status == OPEN and not fenced[rec.epoch] then
    for j = 0, (rec.n - 1) * WIDTH, WIDTH do
      local n, noted, c = used[rec[j + LINE]], rec[j + NOTED], counters[rec[j + KEY]]
      if n and n > noted and rec[j + TAKEN] >= 0 then
        if c then note(c, rec[j + TAKEN], noted, rec[j + MARK], n) end
        rec[j + NOTED] = n
      end
    end
    rec.changed = true
  end
end
write(base, records, now)
return pack('<d', now)
