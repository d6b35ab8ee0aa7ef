package books

import (
	"encoding/json"
	"fmt"
	"strconv"
	"strings"
	"time"
	"unicode/utf8"
)

// Record is what happened to one request. It holds no prompt, no answer, no
// secret. Tokens are counts, times are milliseconds. A field that is not known is
// zero.
type Record struct {
	ID            string            `json:"id"`   // the request's
	Time          time.Time         `json:"time"` // when it ended
	Team          string            `json:"team"`
	KeyID         string            `json:"key_id"`
	User          string            `json:"user"`
	Session       string            `json:"session"`
	Tags          map[string]string `json:"tags"`
	Priority      string            `json:"priority"`
	Model         string            `json:"model"` // as the client named it
	Provider      string            `json:"provider"`
	ProviderModel string            `json:"provider_model"`
	Endpoint      string            `json:"endpoint"` // the path's pattern

	Status    int    `json:"status"` // as the client saw it
	Outcome   string `json:"outcome"`
	Code      string `json:"code"`       // of a refusal
	LimitedBy string `json:"limited_by"` // the limit that refused
	Attempts  int    `json:"attempts"`   // calls to providers
	Stream    bool   `json:"stream"`
	Estimated bool   `json:"estimated"` // the usage was counted by us
	Degraded  bool   `json:"degraded"`  // the store was away

	EstimatedInput int64   `json:"estimated_input"`
	ReservedOutput int64   `json:"reserved_output"`
	Input          int64   `json:"input"`
	CachedInput    int64   `json:"cached_input"`
	CacheWrite     int64   `json:"cache_write"`
	Output         int64   `json:"output"`
	Reasoning      int64   `json:"reasoning"`
	Reserved       int64   `json:"reserved"` // weighted, as limits count
	Charged        int64   `json:"charged"`  // weighted, as limits count
	USD            Dollars `json:"usd"`

	QueueMS      float64 `json:"queue_ms"`
	FirstTokenMS float64 `json:"first_token_ms"`
	TotalMS      float64 `json:"total_ms"`
	OverheadMS   float64 `json:"overhead_ms"`

	Tries  []Try   `json:"tries,omitempty"`
	Limits []Limit `json:"limits,omitempty"`

	// Late says that this adds to a request that may have its record already: what
	// a crash left behind, or usage that was seen after the end.
	Late bool `json:"late,omitempty"`
}

// Try is one call to a provider.
type Try struct {
	Provider      string  `json:"provider"`
	ProviderModel string  `json:"provider_model"`
	Status        int     `json:"status"`
	Code          string  `json:"code"`
	MS            float64 `json:"ms"`
}

// Limit is what one limit had of a request, in its unit; dollars in dollars.
type Limit struct {
	Limit    string  `json:"limit"` // such as team/search/monthly
	Unit     string  `json:"unit"`
	Reserved float64 `json:"reserved"`
	Used     float64 `json:"used"`
	Returned float64 `json:"returned"`
}

// Refused is the outcome that totals count as refused.
const Refused = "refused"

// longestText bounds every text of a record, in bytes.
const longestText = 200

// clean makes every text of r valid, bounded and its own: a client may have sent
// anything, and a piece of a body would keep all of it.
func (r *Record) clean() {
	for _, s := range []*string{
		&r.ID, &r.Team, &r.KeyID, &r.User, &r.Session, &r.Priority, &r.Model, &r.Provider, &r.ProviderModel,
		&r.Endpoint, &r.Outcome, &r.Code, &r.LimitedBy,
	} {
		*s = cleanText(*s)
	}
	for i := range r.Tries {
		t := &r.Tries[i]
		t.Provider, t.ProviderModel, t.Code = cleanText(t.Provider), cleanText(t.ProviderModel), cleanText(t.Code)
	}
	if len(r.Tags) > 0 {
		tags := make(map[string]string, len(r.Tags))
		for name, value := range r.Tags {
			tags[cleanText(name)] = cleanText(value)
		}
		r.Tags = tags
	}
}

func cleanText(s string) string {
	if len(s) > longestText {
		s = s[:longestText]
		for len(s) > 0 && !utf8.ValidString(s[max(0, len(s)-utf8.UTFMax):]) && len(s) > longestText-utf8.UTFMax {
			s = s[:len(s)-1]
		}
	}
	s = strings.ToValidUTF8(s, "\uFFFD")
	if strings.IndexByte(s, 0) >= 0 { // which PostgreSQL refuses
		s = strings.ReplaceAll(s, "\x00", "\uFFFD")
	}
	return strings.Clone(s)
}

// Dollars is an amount of money in millionths of a dollar; in JSON it is an
// exact decimal of dollars.
type Dollars int64

// String is d as an exact decimal of dollars.
func (d Dollars) String() string {
	sign, n := "", uint64(d)
	if d < 0 {
		sign, n = "-", -n
	}
	whole, frac := n/1_000_000, n%1_000_000
	text := sign + strconv.FormatUint(whole, 10)
	if frac > 0 {
		text += "." + strings.TrimRight(strconv.FormatUint(1_000_000+frac, 10)[1:], "0")
	}
	return text
}

// MarshalJSON implements json.Marshaler.
func (d Dollars) MarshalJSON() ([]byte, error) { return []byte(d.String()), nil }

// UnmarshalJSON implements json.Unmarshaler; more than six decimals are an error.
func (d *Dollars) UnmarshalJSON(text []byte) error {
	s := string(text)
	digits, negative := strings.CutPrefix(s, "-")
	whole, frac, _ := strings.Cut(digits, ".")
	n, err := strconv.ParseUint(whole, 10, 44)
	if err != nil || len(frac) > 6 {
		return fmt.Errorf("%.40q is not an amount of dollars", s)
	}
	micro, err := strconv.ParseUint((frac + "000000")[:6], 10, 32)
	if err != nil {
		return fmt.Errorf("%.40q is not an amount of dollars", s)
	}
	*d = Dollars(n*1_000_000 + micro)
	if negative {
		*d = -*d
	}
	return nil
}

// columns are those of the table requests, in the order of values.
var columns = []string{
	"id", "at", "team", "key_id", "user_id", "session", "tags", "priority", "model", "provider", "provider_model", "endpoint",
	"status", "outcome", "code", "limited_by", "attempts", "stream", "estimated", "degraded",
	"estimated_input", "reserved_output", "input", "cached_input", "cache_write", "output", "reasoning",
	"reserved", "charged", "micro_usd", "queue_ms", "first_token_ms", "total_ms", "overhead_ms", "tries", "limits",
}

// values are r's in the order of columns, appended to row.
func (r *Record) values(row []any) []any {
	return append(row,
		r.ID, r.Time.UnixMilli(), r.Team, r.KeyID, r.User, r.Session, asJSON(len(r.Tags), r.Tags), r.Priority,
		r.Model, r.Provider, r.ProviderModel, r.Endpoint,
		r.Status, r.Outcome, r.Code, r.LimitedBy, r.Attempts, flag(r.Stream), flag(r.Estimated), flag(r.Degraded),
		r.EstimatedInput, r.ReservedOutput, r.Input, r.CachedInput, r.CacheWrite, r.Output, r.Reasoning,
		r.Reserved, r.Charged, int64(r.USD), r.QueueMS, r.FirstTokenMS, r.TotalMS, r.OverheadMS,
		asJSON(len(r.Tries), r.Tries), asJSON(len(r.Limits), r.Limits))
}

// scan reads a row of columns.
func (r *Record) scan(row interface{ Scan(...any) error }) error {
	var at, usd int64
	var tags, tries, limits string
	var stream, estimated, degraded int
	err := row.Scan(
		&r.ID, &at, &r.Team, &r.KeyID, &r.User, &r.Session, &tags, &r.Priority,
		&r.Model, &r.Provider, &r.ProviderModel, &r.Endpoint,
		&r.Status, &r.Outcome, &r.Code, &r.LimitedBy, &r.Attempts, &stream, &estimated, &degraded,
		&r.EstimatedInput, &r.ReservedOutput, &r.Input, &r.CachedInput, &r.CacheWrite, &r.Output, &r.Reasoning,
		&r.Reserved, &r.Charged, &usd, &r.QueueMS, &r.FirstTokenMS, &r.TotalMS, &r.OverheadMS, &tries, &limits)
	if err != nil {
		return err
	}
	r.Time, r.USD = time.UnixMilli(at).UTC(), Dollars(usd)
	r.Stream, r.Estimated, r.Degraded = stream != 0, estimated != 0, degraded != 0
	for text, into := range map[string]any{tags: &r.Tags, tries: &r.Tries, limits: &r.Limits} {
		if text != "" {
			if err := json.Unmarshal([]byte(text), into); err != nil {
				return fmt.Errorf("record %s: %w", r.ID, err)
			}
		}
	}
	return nil
}

func asJSON(n int, v any) string {
	if n == 0 {
		return ""
	}
	text, _ := json.Marshal(v) // texts and numbers
	return string(text)
}

func flag(b bool) int {
	if b {
		return 1
	}
	return 0
}
