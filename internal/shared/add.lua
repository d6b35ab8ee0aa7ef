-- Adds whole numbers to the fields of a hash, all or none, each batch once.
--
-- KEYS[1]  the hash
-- ARGV[1]  time to live in ms; 0: unchanged
-- ARGV[2]  the writer's hidden field
-- ARGV[3]  the batch's number
-- ARGV[4…] field, delta, field, delta, …
-- returns  1 if added, 0 if the batch was there already, -1 if a field is not
--          a whole number or would overflow (then nothing was changed)
--
-- memory.go has the same rules in Go. Numbers stay texts on their way to
-- HINCRBY, which counts in 64 bits; Lua's are doubles.
local key, writer, batch = KEYS[1], ARGV[2], tonumber(ARGV[3])
local last = redis.call('HGET', key, writer)
if last and batch <= tonumber(last) then return 0 end
local isNew = {}
for i = 4, #ARGV, 2 do
  isNew[i] = redis.call('HEXISTS', key, ARGV[i]) == 0
  local reply = redis.pcall('HINCRBY', key, ARGV[i], ARGV[i + 1])
  if type(reply) == 'table' and reply.err then
    for j = 4, i - 2, 2 do -- take back what was added
      if isNew[j] then
        redis.call('HDEL', key, ARGV[j])
      elseif ARGV[j + 1] ~= '0' then
        local delta = ARGV[j + 1]
        delta = string.sub(delta, 1, 1) == '-' and string.sub(delta, 2) or '-' .. delta
        redis.call('HINCRBY', key, ARGV[j], delta)
      end
    end
    return -1
  end
end
redis.call('HSET', key, writer, ARGV[3])
if ARGV[1] ~= '0' then redis.call('PEXPIRE', key, ARGV[1]) end
return 1
