-- fence.lua: fences epochs that are silent, or one that ends in order.
--
-- KEYS[1]          the base of the registry of gateways
-- ARGV[1]          the time in ms, or 0 for Redis's own
-- ARGV[2]          the silence in ms, or -1
-- ARGV[3]          without a silence: the epoch to fence
-- returns          {epochs fenced now, epochs whose records are still to be ended, epochs alive}
--
-- The same in Go: memstore/epoch.go, Reclaim and Retire. Epochs are fenced, and
-- their reserves refused, before the first of their records is ended.

local MOST = 64 -- epochs a call

local base, now = KEYS[1], clock(ARGV[1])
local silence, silent = tonumber(ARGV[2]), {ARGV[3]}
if silence >= 0 then
  silent = call('ZRANGEBYSCORE', base .. ':beats', '-inf', '(' .. int(now - silence), 'LIMIT', 0, MOST)
end
for _, epoch in ipairs(silent) do
  call('ZREM', base .. ':beats', epoch)
  call('ZADD', base .. ':fenced', int(now), epoch)
  call('ZADD', base .. ':dying', int(now), epoch)
end
return {#silent, call('ZRANGE', base .. ':dying', 0, MOST - 1), call('ZRANGE', base .. ':beats', 0, -1)}
