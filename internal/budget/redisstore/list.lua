-- list.lua: lists a part of the reservations that an epoch has open.
--
-- KEYS[1]          the base of all keys
-- ARGV[1]          the time in ms, or 0 for Redis's own
-- ARGV[2]          the epoch
-- ARGV[3]          the cursor, first 0
-- returns          {the next cursor, 0 at the end; id and age in ms of each}
--
-- The same in Go: memstore/epoch.go, OpenIDs.

local base, now = KEYS[1], clock(ARGV[1])
local found = call('ZSCAN', base .. ':open:' .. ARGV[2], ARGV[3], 'COUNT', 200)
local reply, ids, keys = {found[1]}, found[2], {}
for i = 1, #ids, 2 do keys[#keys + 1] = base .. ':r:' .. ids[i] end
if #keys > 0 then
  local stored = call('MGET', unpack(keys))
  for i = 1, #keys do
    local rec = stored[i] and decode_record(stored[i])
    if rec and rec.status == OPEN then
      reply[#reply + 1] = ids[2 * i - 1]
      reply[#reply + 1] = int(max(0, now - rec.created))
    end
  end
end
return reply
