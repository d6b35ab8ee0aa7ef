-- reclaim.lua: ends records of gateways that died, and those that outlived
-- their deadline, a bounded number a call.
--
-- KEYS[1]          the base of all keys
-- ARGV[1]          the time in ms, or 0 for Redis's own
-- ARGV[2]          the most records to end
-- ARGV[3]          'dead': the epoch is fenced here, and all its records end;
--                  'late': those past their deadline end
-- ARGV[4 ..]       the epochs
-- returns          {records ended, 1 if there may be more}, and of each counter of
--                  the ended records whose id has a tag, which follows a |:
--                  id, counter's key without the base, what it was charged
--
-- The same in Go: memstore/epoch.go, Reclaim.

local FENCED_FOR = 24 * 3600 * 1000

local base, now, most = KEYS[1], clock(ARGV[1]), tonumber(ARGV[2])
local records, ended, more = {}, 0, 0
for e = 4, #ARGV do
  local epoch = ARGV[e]
  local open, ids = base .. ':open:' .. epoch
  if ARGV[3] == 'dead' then
    call('ZADD', base .. ':fenced', int(now), epoch)
    call('ZREMRANGEBYSCORE', base .. ':fenced', '-inf', int(now - FENCED_FOR))
    call('PEXPIRE', base .. ':fenced', int(8 * FENCED_FOR))
    ids = call('ZRANGE', open, 0, most - ended)
  else
    ids = call('ZRANGEBYSCORE', open, '-inf', int(now), 'LIMIT', 0, most - ended + 1)
  end
  if #ids > most - ended then
    more = 1
    ids[#ids] = nil
  end
  if #ids > 0 then
    local keys = {}
    for i, id in ipairs(ids) do keys[i] = base .. ':r:' .. id end
    local stored = call('MGET', unpack(keys))
    for i, id in ipairs(ids) do
      local rec = stored[i] and decode_record(stored[i])
      if rec and rec.status == OPEN and rec.epoch == epoch then
        rec.id = id
        records[keys[i]] = rec
      else -- a name without a record
        gone[epoch] = gone[epoch] or {}
        table.insert(gone[epoch], id)
      end
    end
    ended = ended + #ids
  end
  if more == 1 then break end
end
fetch(base, records, now)
for _, rec in pairs(records) do finish(rec, RECLAIMED, crash_charge, now) end
write(base, records, now)
local reply = {ended, more}
for _, rec in pairs(records) do
  for i = 0, rec.id:find('|', 1, true) and (rec.n - 1) * WIDTH or -1, WIDTH do
    if rec[i + TAKEN] >= 0 then
      local n = #reply
      reply[n + 1], reply[n + 2], reply[n + 3] = rec.id, rec[i + KEY], int(rec[i + NOTED])
    end
  end
end
return reply
