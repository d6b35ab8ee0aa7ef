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

local base, now, epoch = KEYS[1], clock(ARGV[1]), ARGV[2]
local fenced = call('ZSCORE', base .. ':fenced', epoch) and 1 or 0
if fenced == 0 then
  call('ZADD', base .. ':beats', int(now), epoch)
  if #ARGV > 2 then
    call('SADD', base .. ':tags:' .. epoch, unpack(ARGV, 3))
    call('PEXPIRE', base .. ':tags:' .. epoch, int(8 * FENCED_FOR))
  end
end
call('ZREMRANGEBYSCORE', base .. ':fenced', '-inf', int(now - FENCED_FOR))
return {fenced, call('ZCARD', base .. ':beats'), now}
