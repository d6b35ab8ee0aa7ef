package admin

import (
	"crypto/hmac"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strconv"
	"strings"
	"time"
)

// The dashboard's cookie is a pass of its own, made from the account but not its
// token: it opens the page and its figures only, and ends after a while. It is
// sent to /dashboard and nowhere else.
const (
	cookieName = "llmgw_dashboard"
	cookiePath = "/dashboard"
	passLasts  = 12 * time.Hour
)

// guard lets in who has an account's token, to the dashboard who has a pass, and
// everyone to what is open.
func (h *handler) guard(next http.Handler) http.Handler {
	return http.HandlerFunc(func(w http.ResponseWriter, r *http.Request) {
		open := len(h.config.Accounts) == 0
		if open && !isOpen(r.URL.Path) && r.URL.Path != "/metrics" && !h.isOwnHost(r.Host) {
			replyError(w, http.StatusForbidden, "forbidden_host", "The admin plane has no token, and is not called by this name: set server.admin_token, or add the name to server.admin_hosts.")
			return
		}
		if _, known := h.account(r); !known && !isOpen(r.URL.Path) {
			h.refuse(w, r)
			return
		}
		next.ServeHTTP(w, r)
	})
}

// account returns whose token or, at the dashboard, whose pass r has.
func (h *handler) account(r *http.Request) (Account, bool) {
	if len(h.config.Accounts) == 0 {
		return anybody, true
	}
	scheme, token, _ := strings.Cut(r.Header.Get("Authorization"), " ")
	if strings.EqualFold(scheme, "Bearer") {
		if who, ok := h.byToken(strings.TrimSpace(token)); ok {
			return who, true
		}
	}
	if r.URL.Path == cookiePath || strings.HasPrefix(r.URL.Path, cookiePath+"/") {
		return h.byPass(r)
	}
	return Account{}, false
}

// byToken compares with every account's in constant time, whatever the lengths.
func (h *handler) byToken(given string) (found Account, ok bool) {
	hash := sha256.Sum256([]byte(given))
	for _, a := range h.config.Accounts {
		if subtle.ConstantTimeCompare(hash[:], a.SHA256[:]) == 1 {
			found, ok = a, true
		}
	}
	return found, ok
}

// refuse answers a request without a token. It slows down one with a wrong one.
func (h *handler) refuse(w http.ResponseWriter, r *http.Request) {
	status, retryAfter := http.StatusUnauthorized, time.Duration(0)
	if r.Header.Get("Authorization") != "" {
		status, retryAfter = h.hold(r)
	}
	refused(w, status, retryAfter)
	switch {
	case status == http.StatusTooManyRequests:
		replyError(w, status, "too_many_attempts", "This address sent too many wrong admin tokens: wait before the next one.")
	case isPage(r.URL.Path) && r.Method == http.MethodGet:
		h.page.serveLogin(w, status, loginFresh)
	default:
		replyError(w, status, "unauthorized", "The admin plane wants its token: Authorization: Bearer <admin_token>.")
	}
}

// isOwnHost reports whether a request that needs no token may be of this network.
// A stranger's page reaches the admin plane through its own name, made to lead
// here (DNS rebinding): then the browser takes both for one origin. No stranger
// has an address, or a name without a dot, as its own.
func (h *handler) isOwnHost(hostPort string) bool {
	host, _, err := net.SplitHostPort(hostPort)
	if err != nil {
		host = strings.Trim(hostPort, "[]")
	}
	host = strings.ToLower(strings.TrimSuffix(host, "."))
	_, err = netip.ParseAddr(host)
	return err == nil || !strings.Contains(host, ".") || strings.HasSuffix(host, ".localhost") || slices.Contains(h.config.Hosts, host)
}

// isPage reports whether path is the dashboard's document.
func isPage(path string) bool {
	return path == cookiePath || strings.HasPrefix(path, cookiePath+"/teams/")
}

// isOpen tells whether anyone may come to path.
func isOpen(path string) bool {
	return path == "/healthz" || path == "/readyz" || path == cookiePath+"/login"
}

// login trades a token, given in the page's form, for a pass.
func (h *handler) login(w http.ResponseWriter, r *http.Request) {
	r.Body = http.MaxBytesReader(w, r.Body, maxBody)
	if len(h.config.Accounts) > 0 {
		who, ok := h.byToken(strings.TrimSpace(r.PostFormValue("token")))
		if !ok {
			status, retryAfter := h.hold(r)
			refused(w, status, retryAfter)
			h.page.serveLogin(w, status, loginFailed)
			return
		}
		http.SetCookie(w, &http.Cookie{
			Name: cookieName, Value: h.pass(who, h.config.Now().Add(passLasts)), Path: cookiePath,
			MaxAge: int(passLasts.Seconds()), HttpOnly: true, SameSite: http.SameSiteStrictMode, Secure: r.TLS != nil,
		})
	}
	http.Redirect(w, r, "/dashboard", http.StatusSeeOther)
}

// byPass returns whose pass r has.
func (h *handler) byPass(r *http.Request) (found Account, ok bool) {
	cookie, err := r.Cookie(cookieName)
	if err != nil {
		return Account{}, false
	}
	unix, _, _ := strings.Cut(cookie.Value, ".")
	seconds, err := strconv.ParseInt(unix, 10, 64)
	if err != nil || !h.config.Now().Before(time.Unix(seconds, 0)) {
		return Account{}, false
	}
	for _, a := range h.config.Accounts {
		if subtle.ConstantTimeCompare([]byte(cookie.Value), []byte(h.pass(a, time.Unix(seconds, 0)))) == 1 {
			found, ok = a, true
		}
	}
	return found, ok
}

// pass is "unix time.HMAC-SHA256(key, purpose, account's hash and time)".
func (h *handler) pass(who Account, until time.Time) string {
	unix := strconv.FormatInt(until.Unix(), 10)
	mac := hmac.New(sha256.New, h.config.PassKey)
	mac.Write([]byte("llmgw dashboard of " + hex.EncodeToString(who.SHA256[:]) + " until " + unix))
	return unix + "." + hex.EncodeToString(mac.Sum(nil))
}
