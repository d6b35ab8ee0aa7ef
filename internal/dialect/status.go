package dialect

import "llmgw/internal/fault"

// StatusOf returns the HTTP status of a fault: its own if it has one, else the
// one of its code. It is the one map from codes to statuses; the
// dialects name their kinds of error by it.
func StatusOf(e *fault.Error) int {
	if e.Status != 0 {
		return e.Status
	}
	switch e.Code {
	case fault.InvalidAPIKey:
		return 401
	case fault.Blocked, fault.ModelNotAllowed:
		return 403
	case fault.ModelNotFound, fault.NotFound:
		return 404
	case fault.MethodNotAllowed:
		return 405
	case fault.AlreadyEnded:
		return 409
	case fault.RequestTooLarge:
		return 413
	case fault.InvalidRequest, fault.ExceedsLimit:
		return 400
	case fault.RateLimitExceeded, fault.InsufficientQuota, fault.ConcurrencyExceeded, fault.Held:
		return 429
	case fault.UpstreamCapacity, fault.LimiterUnavailable, fault.Overloaded, fault.ShuttingDown:
		return 503
	case fault.UpstreamError:
		return 502
	case fault.UpstreamTimeout:
		return 504
	default:
		return 500
	}
}

// KindOf returns a dialect's name for the kind of a fault: that of its status
// in names, else that of all statuses like it, which is under 400 and 500.
func KindOf(e *fault.Error, names map[int]string) string {
	status := StatusOf(e)
	if name, ok := names[status]; ok {
		return name
	}
	if status < 500 {
		return names[400]
	}
	return names[500]
}
