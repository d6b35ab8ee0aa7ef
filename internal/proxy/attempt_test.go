package proxy

import (
	"context"
	"net/http"
	"net/http/httptest"
	"testing"
	"testing/synctest"
	"time"

	"llmgw/internal/tenant"
)

func attemptOf(ctx context.Context, key string) *http.Request {
	r := httptest.NewRequest(http.MethodPost, "/v1/chat/completions", nil).WithContext(ctx)
	if key != "" {
		r.Header.Set("Idempotency-Key", key)
	}
	return r
}

// keyed is a caller with a key.
func keyed(id string) tenant.Caller {
	return tenant.Caller{Key: &tenant.Key{ID: id}}
}

func TestANewAttemptEndsTheOneBeforeItAndWaitsForItsSettlement(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAttempts()
		first, settled := a.begin(attemptOf(t.Context(), "k"), keyed("key-1"), nil)
		go func() {
			<-first.Context().Done()
			time.Sleep(300 * time.Millisecond) // it settles
			settled.end()
		}()
		began := time.Now()
		second, done := a.begin(attemptOf(t.Context(), "k"), keyed("key-1"), nil)
		defer done.end()
		if got := time.Since(began); got != 300*time.Millisecond {
			t.Errorf("the second attempt went on after %v, want after the first had settled", got)
		}
		if second.Context().Err() != nil {
			t.Error("the second attempt was ended as well")
		}
	})
}

func TestAnAttemptThatDoesNotEndIsNotWaitedForForEver(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		a := newAttempts()
		_, settled := a.begin(attemptOf(t.Context(), "k"), keyed("key-1"), nil)
		defer settled.end()
		began := time.Now()
		_, done := a.begin(attemptOf(t.Context(), "k"), keyed("key-1"), nil)
		defer done.end()
		if got := time.Since(began); got != supersedeWait {
			t.Errorf("waited %v, want %v", got, supersedeWait)
		}
	})
}

func TestAWSNamesItsAttemptsToo(t *testing.T) {
	a := newAttempts()
	attempt := func() *http.Request {
		r := attemptOf(t.Context(), "")
		r.Header.Set("Amz-Sdk-Invocation-Id", "5f0c")
		return r
	}
	first, settled := a.begin(attempt(), keyed("key-1"), nil)
	go func() { <-first.Context().Done(); settled.end() }()
	second, done := a.begin(attempt(), keyed("key-1"), nil)
	defer done.end()
	if first.Context().Err() == nil || second.Context().Err() != nil {
		t.Errorf("the first ended with %v, the second with %v", first.Context().Err(), second.Context().Err())
	}
}

func TestOtherKeysAndCallsWithoutOneAreLeftAlone(t *testing.T) {
	a := newAttempts()
	first, done := a.begin(attemptOf(t.Context(), "k"), keyed("key-1"), nil)
	for _, r := range []struct{ name, keyID string }{{"k", "key-2"}, {"other", "key-1"}, {"", "key-1"}} {
		_, end := a.begin(attemptOf(t.Context(), r.name), keyed(r.keyID), nil)
		end.end()
	}
	if first.Context().Err() != nil {
		t.Error("another's attempt ended this one")
	}
	done.end()
	if len(a.named) != 0 {
		t.Errorf("got %d attempts after all ended", len(a.named))
	}
}
