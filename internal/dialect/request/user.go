package request

import (
	"strings"

	"llmgw/internal/jsonscan"
)

// User reads the end user whom a body names, by the first of the usual members
// that names one, and the conversation of that user. Both may be empty.
func (b Body) User() (user, session string) {
	for _, key := range []string{"user", "safety_identifier"} {
		if s, ok := b.Text(key); ok && s != "" {
			return SplitUser(s)
		}
	}
	at, ok := b.Find("metadata")
	if !ok || b.Kind(at) != jsonscan.Object {
		return "", ""
	}
	return SplitUser(textAt(b.Data, at.Start, "user_id"))
}

// SplitUser reads an identity that may hold more than the person. Claude Code
// writes its account, device and session into one string: as JSON, or before
// version 2.1.78 as user_DEVICE_account_ACCOUNT_session_SESSION. The user is the
// account, else the device: a session is a new one each time.
func SplitUser(s string) (user, session string) {
	if strings.HasPrefix(s, "{") {
		return composed(s, textAt([]byte(s), 0, "account_uuid"), textAt([]byte(s), 0, "device_id"), textAt([]byte(s), 0, "session_id"))
	}
	rest, ok := strings.CutPrefix(s, "user_")
	device, rest, hasAccount := strings.Cut(rest, "_account_")
	account, session, hasSession := strings.Cut(rest, "_session_")
	if ok && hasAccount && hasSession {
		return composed(s, account, device, session)
	}
	return s, ""
}

// composed is the user of an identity with these parts, or whole if it has none
// of them.
func composed(whole, account, device, session string) (string, string) {
	switch {
	case account != "":
		return account, session
	case device != "":
		return device, session
	case session != "": // of nobody in particular
		return "", session
	}
	return whole, ""
}

// textAt returns the string member called key of the object that starts at
// offset at of data, or nothing.
func textAt(data []byte, at int, key string) string {
	v, ok := jsonscan.Find(data, at, key)
	if !ok || v.KindOf(data) != jsonscan.String {
		return ""
	}
	return string(jsonscan.Text(v.Of(data), nil))
}
