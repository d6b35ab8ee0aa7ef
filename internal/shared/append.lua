-- Appends a text to a list of a known length.
--
-- KEYS[1]  the list
-- ARGV[1]  how many texts it must have
-- ARGV[2]  the text
-- returns  1 if appended, 0 if the list has another length
--
-- list.go has the same rule in Go.
if redis.call('LLEN', KEYS[1]) ~= tonumber(ARGV[1]) then return 0 end
redis.call('RPUSH', KEYS[1], ARGV[2])
return 1
