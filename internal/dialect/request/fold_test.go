package request

import (
	"testing"

	"llmgw/internal/dialect"
	"llmgw/internal/fault"
)

func TestANameThatFoldsToAKnownOneIsRefused(t *testing.T) {
	for _, key := range []string{"MODEL", "Model", "\u017ftream", "\\u017ftream", "OPTIONS", "Max_Tokens", "max_to\u212aens", "maxoutputtokens", "generationconfig", "STREAM_OPTIONS", "N"} {
		_, err := Read(dialect.Request{Body: []byte(`{"model":"m","` + key + `":1}`)})
		if f := fault.From(err); f == nil || f.Code != fault.InvalidRequest {
			t.Errorf("%s: got %v, want an invalid request", key, err)
		}
		b, err := Read(dialect.Request{Body: []byte(`{"model":"m","options":{"` + key + `":1}}`)})
		if err != nil {
			t.Fatal(err)
		}
		if _, _, err := b.Within("options"); fault.From(err) == nil {
			t.Errorf("%s, one level below: got no error", key)
		}
	}
	for _, key := range []string{"maxTokens", "generationConfig", "X-Thing", "Temperatur", "strea\u0131m", "logit_bias", "toolChoice2"} {
		if _, err := Read(dialect.Request{Body: []byte(`{"model":"m","` + key + `":1}`)}); err != nil {
			t.Errorf("%s: got %v", key, err)
		}
	}
}
