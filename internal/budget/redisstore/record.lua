-- record.lua: what a reservation took, prepended to the scripts that need it.
--
-- An open or reclaimed record is stored as
--   status, epoch, created, deadline, not_after, crash, lines, parts
-- and for each part
--   counter's key without the base, line, outcome, asked, taken, noted, mark
-- taken is -1 for a shadow line that was refused: it holds nothing. noted is
-- what was reported so far; in a reclaimed record, what was charged. A settled
-- record is its status alone. The same life is in memstore/reserve.go.

local OPEN, SETTLED, RECLAIMED = 1, 2, 3
local SETTLED_FOR, RECLAIMED_FOR = 60000, 3600000
local RECORD_KEEP = 7 * 24 * 3600 * 1000 -- beyond its deadline, for the reclaim

local function decode_record(s)
  local status = s:byte()
  if status == SETTLED then return {status = status} end
  local rec, n, pos = {status = status}
  rec.epoch, rec.created, rec.deadline, rec.not_after, rec.crash, rec.lines, n, pos = unpack_struct('<Bc0dddBBB', s, 2)
  for i = 1, n do
    local p = {}
    p.key, p.line, p.outcome, p.asked, p.taken, p.noted, p.mark, pos = unpack_struct('<Hc0BBdddd', s, pos)
    rec[i] = p
  end
  return rec
end

local function encode_record(rec)
  if rec.status == SETTLED then return pack('<B', SETTLED) end
  local out = {pack('<BBc0dddBBB', rec.status, #rec.epoch, rec.epoch, rec.created, rec.deadline, rec.not_after, rec.crash, rec.lines, #rec)}
  for i = 1, #rec do
    local p = rec[i]
    out[i + 1] = pack('<Hc0BBdddd', #p.key, p.key, p.line, p.outcome, p.asked, p.taken, p.noted, p.mark)
  end
  return table.concat(out)
end
