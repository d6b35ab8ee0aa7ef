package request

import (
	"encoding/json"
	"testing"

	"llmgw/internal/dialect"
)

func TestTheUserIsThePersonAndNotTheSession(t *testing.T) {
	const session = "54c1eb09-bc4c-4d2f-98eb-6d2ab2d5e2fe"
	for _, s := range []struct{ what, identity, user, session string }{
		{"a plain name", "u-7", "u-7", ""},
		{"nothing", "", "", ""},
		{"an account", `{"device_id":"d1","account_uuid":"acc-1","session_id":"` + session + `"}`, "acc-1", session},
		{"in another order, with more", `{"session_id":"` + session + `","team":"x","account_uuid":"acc\u002d1","device_id":"d1"}`, "acc-1", session},
		{"a device without an account", `{"device_id":"d1","account_uuid":"","session_id":"` + session + `"}`, "d1", session},
		{"an account that is null", `{"device_id":"d1","account_uuid":null,"session_id":"` + session + `"}`, "d1", session},
		{"a session of nobody", `{"session_id":"` + session + `"}`, "", session},
		{"another object", `{"name":"bob"}`, `{"name":"bob"}`, ""},
		{"a broken object", `{"account_uuid":"acc-1"`, `{"account_uuid":"acc-1"`, ""},
		{"the older form", "user_d1_account_acc-1_session_" + session, "acc-1", session},
		{"the older form without an account", "user_d1_account__session_" + session, "d1", session},
		{"a name like the older form", "user_account_7", "user_account_7", ""},
	} {
		text, err := json.Marshal(s.identity)
		if err != nil {
			t.Fatal(err)
		}
		for _, body := range []string{`{"metadata":{"user_id":` + string(text) + `}}`, `{"user":` + string(text) + `}`, `{"safety_identifier":` + string(text) + `}`} {
			b, err := Read(dialect.Request{Body: []byte(body)})
			if err != nil {
				t.Fatal(err)
			}
			if user, session := b.User(); user != s.user || session != s.session {
				t.Errorf("%s: %s is user %q, session %q, want %q and %q", s.what, body, user, session, s.user, s.session)
			}
		}
	}
}
