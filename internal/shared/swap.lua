-- Puts a value in the place of another one, where '' is no field.
--
-- KEYS[1]  the hash
-- ARGV[1]  the field
-- ARGV[2]  what must be there
-- ARGV[3]  what is put there
-- returns  1 if it was put there, 0 if something else was there
--
-- memory.go has the same rule in Go.
local there = redis.call('HGET', KEYS[1], ARGV[1]) or ''
if there ~= ARGV[2] then return 0 end
if ARGV[3] == '' then
  redis.call('HDEL', KEYS[1], ARGV[1])
else
  redis.call('HSET', KEYS[1], ARGV[1], ARGV[3])
end
return 1
