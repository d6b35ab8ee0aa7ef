-- correct.lua: lowers, pauses or begins counters anew.
--
-- KEYS[1]          the base of all keys
-- KEYS[2 ..]       the counters
-- ARGV[1]          the time in ms, or 0 for Redis's own
-- ARGV[2]          RULES of each counter
-- ARGV[3]          for each: the most that may be left (-1: as it is; -2: begin
--                  anew; -3: give back), a pause in ms, or how much to give back
-- returns          the time
--
-- The same in Go: budget/counter.go, Correct.

local now, rules = clock(ARGV[1]), ARGV[2]
local stored, opened = call('MGET', unpack(KEYS, 2)), {}
for i = 2, #KEYS do
  local c = opened[KEYS[i]] or open_counter(stored[i - 1], rules, i - 1, now)
  opened[KEYS[i]] = c
  local at_most, pause = unpack_struct('<dd', ARGV[3], (i - 2) * 16 + 1)
  if at_most == -2 then
    restart(c, rules_at(rules, i - 1), now)
  elseif at_most == -3 then
    if c.kind ~= LOG and c.kind ~= SLOTS then
      local _, mark = charge(c, 0, now)
      refund(c, mark, pause)
      c.changed = true
    end
  else
    correct(c, at_most, pause, now)
  end
end
for key, c in pairs(opened) do save(key, c, now) end
return pack('<d', now)
