package upstream

import (
	"slices"
	"testing"
	"testing/synctest"
	"time"

	"llmgw/internal/dialect"
)

// rejected is an error that says in its fields that stream_options is unknown.
const rejected = `{"error":{"message":"Unknown parameter: 'stream_options'.","type":"invalid_request_error","param":"stream_options","code":"unknown_parameter"}}`

// asked makes a streamed call of a team and returns the bodies of its tries, and
// the status.
func asked(t *testing.T, c *Client, tr *script, team string, to Target) ([]string, int) {
	t.Helper()
	from := len(tr.sent)
	j := streaming(job("r-"+time.Now().String()+team, to))
	j.Team = team
	r, err := c.Do(t.Context(), j)
	if err != nil {
		t.Fatal(err)
	}
	whole(t, r)
	var bodies []string
	for _, sent := range tr.sent[from:] {
		bodies = append(bodies, sent.body)
	}
	return bodies, r.Status
}

// refusing answers calls that have stream_options with an error, and others well.
func refusing(body string) *script {
	ok, no := answer{status: 200, body: "fine\n"}, answer{status: 400, body: body}
	return &script{answers: map[string][]answer{"a": {ok}}, judge: func(sent string) answer {
		if sent == "hello" {
			return ok
		}
		return no
	}}
}

const with, without = "hello stream_options", "hello"

func TestARefusedWishForUsageIsLeftOutOfTheCallItself(t *testing.T) {
	for _, s := range []struct {
		what, body string
		usage      UsagePolicy
		want       []string
		status     int
	}{
		{"OpenAI's param", rejected, Auto, []string{with, without}, 200},
		{"its param within", `{"error":{"param":"stream_options.include_usage"}}`, Auto, []string{with, without}, 200},
		{"vLLM's param", `{"object":"error","param":"stream_options","code":400}`, Auto, []string{with, without}, 200},
		{"FastAPI's loc", `{"detail":[{"type":"extra_forbidden","loc":["body","stream_options"],"msg":"no"}]}`, Auto, []string{with, without}, 200},
		{"the whole message of Azure's dated versions", `{"error":{"message":"Unrecognized request argument supplied: stream_options","param":null}}`, Auto, []string{with, without}, 200},
		{"a message with what a client sent", `{"error":{"message":"Cannot load http://x/stream_options include_usage","param":"messages"}}`, Auto, []string{with}, 400},
		{"another option", `{"error":{"param":"stream_options.foo"}}`, Auto, []string{with}, 400},
		{"another place", `{"detail":[{"loc":["body","messages",0,"stream_options"]}]}`, Auto, []string{with}, 400},
		{"no JSON", `stream_options include_usage`, Auto, []string{with}, 400},
		{"it is to be asked for always", rejected, Always, []string{with}, 400},
		{"it is never to be asked for", rejected, Never, []string{without}, 200},
	} {
		synctest.Test(t, func(t *testing.T) {
			tr := refusing(s.body)
			p := provider("a", func(p *Provider) { p.Usage, p.Retries = s.usage, 0 })
			got, status := asked(t, client(t, nil, tr, nil, p), tr, "team", Target{Provider: p, Weight: 1})
			if !slices.Equal(got, s.want) || status != s.status {
				t.Errorf("%s: sent %q and got %d, want %q and %d", s.what, got, status, s.want, s.status)
			}
		})
	}
}

func TestAWishThatTheClientMadeInPartIsItsOwnFault(t *testing.T) {
	call := &dialect.Call{StreamOptions: dialect.Span{Start: 3, End: 5}}
	if got := rejectedUsage(400, []byte(rejected), call); got != otherFault {
		t.Errorf("got %d", got)
	}
}

// F1: one caller, however often it comes, changes nothing for others; several
// teams do, for a while, and for that model alone.
func TestSeveralTeamsAreNeededToSpareOthersTheRefusal(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr := refusing(rejected)
		p := provider("a", func(p *Provider) { p.Retries = 0 })
		c, to := client(t, nil, tr, nil, p), Target{Provider: p, Weight: 1, Model: "m"}
		expect := func(what, team string, to Target, want ...string) {
			t.Helper()
			if got, _ := asked(t, c, tr, team, to); !slices.Equal(got, want) {
				t.Errorf("%s: sent %q, want %q", what, got, want)
			}
		}
		for range 10 {
			expect("one team again", "one", to, with, without)
		}
		expect("a second team", "two", to, with, without)
		expect("a third team", "three", to, with, without)
		expect("a fourth team", "four", to, without)
		expect("another model", "four", Target{Provider: p, Weight: 1, Model: "other"}, with, without)
		newer := *p
		newer.APIVersion = "2026-01-01"
		expect("another version", "four", Target{Provider: &newer, Weight: 1, Model: "m"}, with, without)
		time.Sleep(usageRefused)
		expect("an hour later", "four", to, with, without)
	})
}

func TestARefusalInWordsIsNotRemembered(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		tr := refusing(`{"error":{"message":"Unrecognized request argument supplied: stream_options"}}`)
		p := provider("a", func(p *Provider) { p.Retries = 0 })
		c := client(t, nil, tr, nil, p)
		for _, team := range []string{"one", "two", "three", "four"} {
			if got, _ := asked(t, c, tr, team, Target{Provider: p, Weight: 1}); !slices.Equal(got, []string{with, without}) {
				t.Errorf("team %s: sent %q", team, got)
			}
		}
	})
}
