package redisstore

import "time"

// SetClock makes every script take t as Redis's time.
func (s *Store) SetClock(t time.Time) { s.clock.Store(t.UnixMilli()) }
