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

local base, now = KEYS[1], redis.call('TIME')
now = tonumber(ARGV[1]) > 0 and tonumber(ARGV[1]) or now[1] * 1000 + math.floor(now[2] / 1000)
local at, silence, silent = string.format('%.0f', now), tonumber(ARGV[2]), {ARGV[3]}
if silence >= 0 then
  silent = redis.call('ZRANGEBYSCORE', base .. ':beats', '-inf', '(' .. string.format('%.0f', now - silence), 'LIMIT', 0, MOST)
end
for _, epoch in ipairs(silent) do
  redis.call('ZREM', base .. ':beats', epoch)
  redis.call('ZADD', base .. ':fenced', at, epoch)
  redis.call('ZADD', base .. ':dying', at, epoch)
end
return {#silent, redis.call('ZRANGE', base .. ':dying', 0, MOST - 1), redis.call('ZRANGE', base .. ':beats', 0, -1)}
