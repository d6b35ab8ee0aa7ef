package proxy

import (
	"crypto/sha256"
	"io"
	"net/http"
	"strings"
	"testing"
	"time"

	"llmgw/internal/budget"
	"llmgw/internal/tenant"
)

// once is a limit of one request a minute.
func once(scope budget.Scope, place string) *budget.Limit {
	return &budget.Limit{
		Place: place, Scope: scope, Name: "rpm", Unit: budget.Requests, Amount: 1, Period: budget.Minute, Burst: 1,
		Algorithm: budget.TokenBucket, Mode: budget.Enforce, WhenStoreDown: budget.Local,
	}
}

// upload asks with a body of a megabyte that cannot be decoded, and checks that
// it is read to its end all the same.
func (h *house) upload(encoding string) (status int, by string) {
	h.t.Helper()
	body := &io.LimitedReader{R: zeros{}, N: 1 << 20}
	r, err := http.NewRequestWithContext(h.t.Context(), http.MethodPost, "/v1/chat/completions", body)
	if err != nil {
		h.t.Fatal(err)
	}
	r.ContentLength = -1
	r.Header.Set("Authorization", "Bearer "+houseKey)
	r.Header.Set("Content-Encoding", encoding)
	r.Header.Set("X-LLMGW-User", "ann")
	w := &recorder{header: http.Header{}}
	h.Handler().ServeHTTP(w, r)
	if body.N != 0 {
		h.t.Errorf("%d bytes of the body were not read", body.N)
	}
	return w.status, w.header.Get("X-Llmgw-Limited-By")
}

// zeros are bytes without end.
type zeros struct{}

func (zeros) Read(p []byte) (int, error) {
	clear(p)
	return len(p), nil
}

// recorder keeps an answer's head.
type recorder struct {
	header http.Header
	status int
}

func (r *recorder) Header() http.Header         { return r.header }
func (r *recorder) WriteHeader(status int)      { r.status = status }
func (r *recorder) Write(p []byte) (int, error) { return len(p), nil }

func TestALimitOfRequestsRefusesBeforeTheBodyIsLookedAt(t *testing.T) {
	for scope, set := range map[string]func(*Rules, *tenant.Team){
		"gateway/rpm": func(r *Rules, _ *tenant.Team) { r.Limits = []*budget.Limit{once(budget.Gateway, "gateway")} },
		"team/t/rpm":  func(_ *Rules, t *tenant.Team) { t.Limits[0] = once(budget.Team, "team/t"); t.Limits[0].Owner = "t" },
		"key/k/rpm": func(_ *Rules, t *tenant.Team) {
			t.Keys[0].Limits = []*budget.Limit{once(budget.Key, "key/k")}
			t.Keys[0].Limits[0].Owner = "k"
		},
		"ip/rpm":   func(r *Rules, _ *tenant.Team) { r.Limits = []*budget.Limit{once(budget.IP, "gateway")} },
		"user/rpm": func(_ *Rules, t *tenant.Team) { t.Limits[0] = once(budget.User, "team/t") },
	} {
		t.Run(strings.ReplaceAll(scope, "/", " "), func(t *testing.T) {
			s := setting{rules: func(r *Rules) {
				team := tenant.Team{
					Name: "t", Weight: 1, Limits: []*budget.Limit{houseLimit(budget.Tokens)},
					Keys: []tenant.Key{{ID: "k", SHA256: sha256.Sum256([]byte(houseKey))}},
				}
				set(r, &team)
				directory, err := tenant.NewDirectory([]tenant.Team{team})
				if err != nil {
					t.Fatal(err)
				}
				r.Directory = directory
			}}
			inHouse(t, s, answers, func(h *house) {
				call := func(want int) {
					t.Helper()
					if a := h.ask(chatPath, shortAsk, "X-LLMGW-User", "ann"); a.status != want {
						t.Fatalf("got %d %s, want %d", a.status, a.body, want)
					}
				}
				call(200)
				call(429)
				for _, encoding := range []string{"", "gzip", "zstd"} {
					if scope == "ip/rpm" {
						break // this client has no address
					}
					if status, by := h.upload(encoding); status != 429 || by != scope {
						t.Errorf("%q: got %d by %q, want 429 by %s", encoding, status, by, scope)
					}
				}
				if h.limiter.open() != 0 {
					t.Error("an early question left something reserved")
				}
				time.Sleep(time.Minute)
				call(200) // so the early questions took nothing
				call(429)
				time.Sleep(time.Minute - time.Millisecond)
				call(429)
				time.Sleep(time.Millisecond)
				call(200) // asked early, and granted: it counts once
				call(429)
			})
		})
	}
}

func TestAShadowLimitOrOneThatLetsRequestsWaitRefusesNothingEarly(t *testing.T) {
	shadow, waits := once(budget.Team, "team/t"), once(budget.Team, "team/t")
	shadow.Mode = budget.Shadow
	waits.Wait, waits.MaxWait = true, time.Hour
	for what, l := range map[string]*budget.Limit{"shadow": shadow, "wait": waits} {
		inHouse(t, limited(t, l), answers, func(h *house) {
			for range 3 {
				if a := h.ask(chatPath, shortAsk); a.status != 200 {
					t.Errorf("%s: got %d %s", what, a.status, a.body)
				}
			}
		})
	}
}

func TestABlockRefusesBeforeTheBodyIsLookedAt(t *testing.T) {
	for scope, value := range map[tenant.BlockScope]string{tenant.BlockTeam: "t", tenant.BlockKey: "k", tenant.BlockUser: "ann"} {
		inHouse(t, setting{}, answers, func(h *house) {
			if _, err := h.Blocks.Add(t.Context(), tenant.Block{Scope: scope, Value: value}); err != nil {
				t.Fatal(err)
			}
			if status, _ := h.upload("gzip"); status != 403 {
				t.Errorf("%s: got %d, want 403", scope, status)
			}
		})
	}
}
