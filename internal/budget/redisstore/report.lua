-- report.lua: notes what open reservations have used so far, and gives back
-- what they do not keep, and what a crash should be charged.
--
-- KEYS[1]          the base of all keys
-- KEYS[2 ..]       the records
-- ARGV[1]          the time in ms, or 0 for Redis's own
-- ARGV[2]          the reports: count, what was used of each line; count, what
--                  is kept of each line; count, what a crash is charged of
--                  each line; and the ms that the record lives from now, or 0
-- returns          the time
--
-- The same in Go: memstore/settle.go, Report.

local base, now, blob = KEYS[1], clock(ARGV[1]), ARGV[2]
local records, fenced = recall(base, now)

local pos = 1
local function numbers()
  local list, count = {}
  count, pos = unpack_struct('<B', blob, pos)
  for j = 1, count do list[j], pos = unpack_struct('<d', blob, pos) end
  return list
end

local function report(rec, used, kept, crash, life)
  if life > 0 then rec.deadline, rec.prolonged = now + life, true end
  for j = 0, (rec.n - 1) * WIDTH, WIDTH do
    local taken, noted, c = rec[j + TAKEN], rec[j + NOTED], counters[rec[j + KEY]]
    local n, keep = used[rec[j + LINE]], kept[rec[j + LINE]]
    if n and n > noted and taken >= 0 then
      if c then note(c, taken, noted, rec[j + MARK], n) end
      rec[j + NOTED], noted = n, n
    end
    if keep and taken >= 0 then
      -- A missing counter is a full one: nothing can go back to it.
      rec[j + TAKEN] = c and shrink(c, taken, noted, rec[j + MARK], keep) or min(taken, max(keep, noted))
    end
    if c and rec.prolonged then
      c.deadline, c.changed = max(c.deadline, rec.deadline), true
    end
    if crash[rec[j + LINE]] then rec[j + CRASH], rec.reported = crash[rec[j + LINE]], true end
  end
  rec.changed = true
end

for i = 2, #KEYS do
  local used, kept, crash, life = numbers(), numbers(), numbers()
  life, pos = unpack_struct('<d', blob, pos)
  local rec = records[KEYS[i]]
  if rec and rec.status == OPEN and not fenced[rec.epoch] then
    report(rec, used, kept, crash, life)
    if rec.prolonged then call('ZADD', base .. ':open:' .. rec.epoch, int(rec.deadline), KEYS[i]:sub(#base + 4)) end
  end
end
write(base, records, now)
return pack('<d', now)
