package redisstore

import (
	"context"
	"fmt"
	"testing"
)

// BenchmarkLayout is Redis's own time to read and write counters of the fields
// that ours have, each as a packed string with its time to live in one command,
// or as a hash. The arithmetic between is left out.
func BenchmarkLayout(b *testing.B) {
	const fields = "'kind', 'empty', 'version', 'capacity', 'debt', 'holds', 'open', 'deadline', 'paused', 'num', 'den', 'bank', 'level', 'at'"
	for _, layout := range []struct{ name, program string }{
		{"string", `
local stored = redis.call('MGET', unpack(KEYS))
for i, key in ipairs(KEYS) do
  local v = {struct.unpack('<BBdddddddddddd', stored[i] or string.rep('\0', 98))}
  v[13], v[14] = v[13] + 60000, 1800000000000
  redis.call('SET', key, struct.pack('<BBdddddddddddd', unpack(v, 1, 14)), 'PX', '60000')
end`},
		{"hash", `
for _, key in ipairs(KEYS) do
  local v = redis.call('HMGET', key, ` + fields + `)
  for i = 1, 14 do v[i] = tonumber(v[i]) or 0 end
  if v[3] == 0 then
    redis.call('HSET', key, 'kind', 1, 'empty', 0, 'version', 1, 'capacity', 60000, 'debt', 600000, 'num', 1, 'den', 1, 'bank', 4, 'paused', 0)
  end
  redis.call('HSET', key, 'holds', string.format('%.0f', v[6] + 1), 'open', string.format('%.0f', v[7] + 100), 'deadline', '1800000000000',
    'level', string.format('%.0f', v[13] + 60000), 'at', '1800000000000')
  redis.call('PEXPIRE', key, '60000')
end`},
	} {
		for _, counters := range []int{1, 3, 5} {
			b.Run(fmt.Sprintf("%s/counters=%d", layout.name, counters), func(b *testing.B) {
				s := open(b)
				p := scriptOf("#!lua\n" + layout.program)
				var keys []any
				for i := range counters {
					keys = append(keys, fmt.Sprint(s.prefix, ":", i))
				}
				server.Command(b, "config", "resetstat")
				for range b.N {
					s.run(context.Background(), &p, keys, nil)
				}
				b.ReportMetric(perCall(b), "redis-µs")
				b.ReportMetric(memoryOf(b, fmt.Sprint(keys[0])), "B/counter")
			})
		}
	}
}
