-- record.lua: what a reservation took, prepended to the scripts that need it.
--
-- An open or reclaimed record is stored as
--   status, epoch, created, deadline, not_after, crash, lines, parts
-- and for each part
--   counter's key without the base, line, outcome, asked, taken, noted, mark
-- and, once it was reported of, for each part
--   crash
-- taken is -1 for a shadow line that was refused: it holds nothing. noted is
-- what was reported so far; in a reclaimed record, what was charged. crash is what
-- a crash should be charged, by the last report. A settled record is its status
-- alone. The same life is in memstore/reserve.go.

local OPEN, SETTLED, RECLAIMED = 1, 2, 3
local SETTLED_FOR, RECLAIMED_FOR = 60000, 3600000
local RECORD_KEEP = 7 * 24 * 3600 * 1000 -- beyond its deadline, for the reclaim

-- In a table a record has its parts one after another, WIDTH fields each.
local KEY, LINE, OUTCOME, ASKED, TAKEN, NOTED, MARK, CRASH, WIDTH = 1, 2, 3, 4, 5, 6, 7, 8, 8
local HEAD, PART = '<BBc0dddBBB', 'Hc0BBdddd'

local function decode_record(s)
  local status = s:byte()
  if status == SETTLED then return {status = status, n = 0} end
  local rec, pos = {status = status}
  rec.epoch, rec.created, rec.deadline, rec.not_after, rec.crash, rec.lines, rec.n, pos = unpack_struct('<Bc0dddBBB', s, 2)
  for i = 0, (rec.n - 1) * WIDTH, WIDTH do
    rec[i + 1], rec[i + 2], rec[i + 3], rec[i + 4], rec[i + 5], rec[i + 6], rec[i + 7], pos = unpack_struct('<' .. PART, s, pos)
    rec[i + CRASH] = 0
  end
  rec.reported = pos <= #s
  if rec.reported then
    for i = 0, (rec.n - 1) * WIDTH, WIDTH do rec[i + CRASH], pos = unpack_struct('<d', s, pos) end
  end
  return rec
end
