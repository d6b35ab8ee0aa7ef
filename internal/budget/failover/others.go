package failover

import "time"

// StoreCall notes a call of the store that another made, such as the keeper's
// heartbeat: a gateway without requests then notices an outage as well. It
// tells the Observer. It never blocks.
func (l *Limiter) StoreCall(op string, took time.Duration, err error) { l.judge(op, took, err) }
