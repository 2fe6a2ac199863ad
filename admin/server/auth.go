package server

import (
	"context"
	"crypto/hmac"
	"crypto/rand"
	"crypto/sha256"
	"crypto/subtle"
	"encoding/hex"
	"net"
	"net/http"
	"net/netip"
	"slices"
	"strings"

	"github.com/outriderhq/outrider/admin/operate"
	"github.com/outriderhq/outrider/config"
)

// Identity says which header of a trusted proxy names the caller. Without a header
// there is none.
type Identity struct {
	Header  string
	Proxies []netip.Prefix          // whose requests may carry it; it is disregarded on others
	Roles   map[string]operate.Role // by name; * is everyone whom the proxy names
}

// IdentityOf returns the identity settings of a checked configuration.
func IdentityOf(a config.Admin) Identity {
	i := Identity{Header: a.IdentityHeader, Roles: map[string]operate.Role{}}
	for _, text := range a.IdentityProxies {
		if p, err := netip.ParsePrefix(text); err == nil {
			i.Proxies = append(i.Proxies, p)
		}
	}
	for name, role := range a.IdentityRoles {
		i.Roles[name] = operate.ParseRole(role)
	}
	return i
}

// auth decides who sent a request.
type auth struct {
	tokens    []token
	anonymous operate.Role // of callers that say nothing; [operate.RoleNone]: they must
	identity  Identity
	logins    logins
	formKey   [32]byte
}

// token is a bearer token.
type token struct {
	sum  [sha256.Size]byte // of one length, so that comparing takes one time
	role operate.Role
}

func newAuth(cfg Config) *auth {
	a := &auth{identity: cfg.Identity}
	_, _ = rand.Read(a.formKey[:]) // never fails
	for role, tokens := range map[operate.Role][]string{operate.RoleRead: cfg.Tokens, operate.RoleOperate: cfg.OperateTokens, operate.RoleAdmin: cfg.AdminTokens} {
		for _, t := range tokens {
			a.tokens = append(a.tokens, token{sha256.Sum256([]byte(t)), role})
		}
	}
	if len(a.tokens) == 0 && a.identity.Header == "" {
		a.anonymous = max(cfg.Anonymous, operate.RoleRead)
	}
	return a
}

// request has the sender of a request, in its context.
type request struct {
	auth   *auth
	caller operate.Caller
	binds  string // what form tokens are bound to
}

type requestKey struct{}

func requestOf(ctx context.Context) *request {
	r, _ := ctx.Value(requestKey{}).(*request)
	if r == nil {
		return &request{}
	}
	return r
}

// examine finds out who sent a request. A caller without a role may do nothing; refusal
// says why.
func (a *auth) examine(r *http.Request) (found *request, refusal string) {
	found = &request{auth: a, caller: operate.Caller{Role: a.anonymous}, binds: "anonymous"}
	if given, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer "); ok && len(a.tokens) > 0 {
		found.caller, found.binds = a.bearer(given), "bearer"
		return found, "no token of admin.tokens_file, operate_tokens_file or admin_tokens_file has this value"
	}
	if c, err := r.Cookie(cookieName(r)); err == nil && !strings.HasPrefix(r.URL.Path, apis) {
		if caller, ok := a.logins.find(c.Value, secretOf(r)); ok {
			found.caller, found.binds = caller, "login "+c.Value
			return found, ""
		}
	}
	if name := a.named(r); name != "" {
		role, ok := a.identity.Roles[name]
		if !ok {
			role = a.identity.Roles["*"]
		}
		found.caller, found.binds = operate.Caller{Role: role, Name: name, Login: operate.LoginProxy}, "proxy "+name
		return found, "admin.identity_roles gives " + name + " no role"
	}
	return found, "a bearer token of admin.tokens_file, operate_tokens_file or admin_tokens_file is needed"
}

// bearer is the caller with a token.
func (a *auth) bearer(given string) (who operate.Caller) {
	sum := sha256.Sum256([]byte(given))
	for i := range a.tokens { // all of them, whichever matches
		if subtle.ConstantTimeCompare(sum[:], a.tokens[i].sum[:]) == 1 {
			who = operate.Caller{Role: max(who.Role, a.tokens[i].role), Token: hex.EncodeToString(sum[:4])}
		}
	}
	return who
}

// named is the caller that a trusted proxy names.
func (a *auth) named(r *http.Request) string {
	if a.identity.Header == "" {
		return ""
	}
	host, _, err := net.SplitHostPort(r.RemoteAddr)
	if err != nil {
		return ""
	}
	from, err := netip.ParseAddr(host)
	if err != nil || !slices.ContainsFunc(a.identity.Proxies, func(p netip.Prefix) bool { return p.Contains(from.Unmap()) }) {
		return ""
	}
	values := r.Header.Values(a.identity.Header)
	if len(values) != 1 { // one was added to what a client sent
		return ""
	}
	return strings.TrimSpace(values[0])
}

// formToken is the token that a form of a page must carry: a page of another site cannot know it.
func (r *request) formToken() string {
	if r.auth == nil {
		return ""
	}
	mac := hmac.New(sha256.New, r.auth.formKey[:])
	_, _ = mac.Write([]byte(r.binds))
	return hex.EncodeToString(mac.Sum(nil))
}

// FormToken is the token in the forms of a page for this caller.
func FormToken(ctx context.Context) string { return requestOf(ctx).formToken() }

// ValidForm reports whether a form was made for this caller.
func ValidForm(ctx context.Context, token string) bool {
	want := requestOf(ctx).formToken()
	return want != "" && hmac.Equal([]byte(want), []byte(token))
}

// Open reports whether the server needs no authentication.
func Open(ctx context.Context) bool {
	a := requestOf(ctx).auth
	return a != nil && a.anonymous != operate.RoleNone
}
