-- read.lua: tells how counters stand, without changing them.
--
-- KEYS[1]          the base of all keys
-- KEYS[2 ..]       the counters
-- ARGV[1]          the time in ms, or 0 for Redis's own
-- ARGV[2]          RULES of each counter
-- ARGV[3]          an amount for each, to judge
-- returns          the time; each counter as describe() has it
--
-- The same in Go: memstore/memstore.go, Read.

local now, rules, amounts = clock(ARGV[1]), ARGV[2], ARGV[3]
local reply = {pack('<d', now)}
local stored = call('MGET', unpack(KEYS, 2))
for i = 2, #KEYS do
  local c = open_counter(stored[i - 1], rules, i - 1, now)
  local out, wait = ask(c, (unpack_struct('<d', amounts, (i - 2) * 8 + 1)), now)
  reply[i] = pack('<' .. DESCRIBED, describe(c, out, wait, now))
end
return table.concat(reply)
