package failover

// ByID names the reservations of a Limiter by their ids.
type ByID = byID
