package fault

import (
	"context"
	"errors"
	"fmt"
	"testing"
)

func TestFromKeepsAFaultThroughWrapping(t *testing.T) {
	blocked := New(Blocked, "This key is blocked.")
	if got := From(fmt.Errorf("admit: %w", blocked)); got != blocked {
		t.Errorf("got %v, want the wrapped fault itself", got)
	}
}

func TestFromHidesWhatIsNoFault(t *testing.T) {
	got := From(errors.New("dial tcp: secret host"))
	if got.Code != Internal {
		t.Errorf("got code %q, want %q", got.Code, Internal)
	}
	if got.Message == "" || got.Message == "dial tcp: secret host" {
		t.Errorf("got the cause as the client's message: %q", got.Message)
	}
	if From(nil) != nil {
		t.Error("got a fault from no error")
	}
}

func TestTheCauseCanBeAskedFor(t *testing.T) {
	e := &Error{Code: UpstreamTimeout, Message: "Too late.", Err: context.DeadlineExceeded}
	if !errors.Is(e, context.DeadlineExceeded) {
		t.Error("the cause is lost")
	}
	if want := "upstream_timeout: Too late.: context deadline exceeded"; e.Error() != want {
		t.Errorf("got %q, want %q", e.Error(), want)
	}
}

func TestInvalidNamesTheFieldAndIsFinal(t *testing.T) {
	e := Invalid("max_tokens", "max_tokens must be positive.")
	if e.Code != InvalidRequest || e.Param != "max_tokens" || !e.NoRetry {
		t.Errorf("got %+v", e)
	}
}
