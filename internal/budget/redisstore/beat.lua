-- beat.lua: a gateway's sign of life.
--
-- KEYS[1]          the base of the registry of gateways
-- ARGV[1]          the time in ms, or 0 for Redis's own
-- ARGV[2]          the epoch
-- ARGV[3 ..]       of a cluster: the tags that the epoch has used
-- returns          {1 if the epoch is fenced, gateways alive, the time}
--
-- The same in Go: memstore/epoch.go, Heartbeat.

local FENCED_FOR = 24 * 3600 * 1000

local base, now, epoch = KEYS[1], redis.call('TIME'), ARGV[2]
now = tonumber(ARGV[1]) > 0 and tonumber(ARGV[1]) or now[1] * 1000 + math.floor(now[2] / 1000)
local fenced = redis.call('ZSCORE', base .. ':fenced', epoch) and 1 or 0
if fenced == 0 then
  redis.call('ZADD', base .. ':beats', string.format('%.0f', now), epoch)
  if #ARGV > 2 then
    redis.call('SADD', base .. ':tags:' .. epoch, unpack(ARGV, 3))
    redis.call('PEXPIRE', base .. ':tags:' .. epoch, string.format('%.0f', 8 * FENCED_FOR))
  end
end
redis.call('ZREMRANGEBYSCORE', base .. ':fenced', '-inf', string.format('%.0f', now - FENCED_FOR))
return {fenced, redis.call('ZCARD', base .. ':beats'), now}
