package operate

import (
	"context"
	"fmt"
	"strconv"
	"strings"
	"unicode"

	"github.com/outriderhq/outrider/internal/shorten"
)

// Role is what a caller of the server may do; each includes those below it.
type Role int

// The roles.
const (
	RoleNone    Role = iota
	RoleRead         // see everything but payloads
	RoleOperate      // see payloads, examine; pause, resume, redrive, skip
	RoleAdmin        // purge, seek, rebase, forget, retention, reload, end transactions, create topics, remove instances
)

// String returns the role's name.
func (r Role) String() string {
	switch r {
	case RoleNone:
		return "none"
	case RoleRead:
		return "read"
	case RoleOperate:
		return "operate"
	case RoleAdmin:
		return "admin"
	}
	return fmt.Sprintf("role %d", int(r))
}

// ParseRole is the inverse of [Role.String]; an unknown name is [RoleNone].
func ParseRole(name string) Role {
	for _, r := range []Role{RoleRead, RoleOperate, RoleAdmin} {
		if r.String() == name {
			return r
		}
	}
	return RoleNone
}

// Caller is who sent a request.
type Caller struct {
	Role  Role
	Token string // which token it had: the begin of its hash; empty: none was asked for

	Name  string // as a trusted proxy or the caller itself gives it; may be empty
	Login string // [LoginBrowser], [LoginProxy], or empty: each request says who it is
}

// HowToGet says how a caller gets a role that it does not have.
func (c Caller) HowToGet(role Role) string {
	switch {
	case c.Login == LoginProxy:
		return fmt.Sprintf("give %s the role %s in admin.identity_roles, and restart the relay", c.Name, role)
	case c.Token != "":
		return fmt.Sprintf("use a token of admin.%s_tokens_file", role)
	}
	return fmt.Sprintf("set admin: {anonymous: %s} in the configuration, or %[1]s_tokens_file there, and restart the relay", role)
}

// Author is the author of a change in the audit log: the name that the caller gave, and the token
// that it really had.
func (c Caller) Author(name string) string {
	if c.Name != "" {
		name = c.Name // the proxy knows better
	}
	if name = named(name); name == "" {
		name = "unnamed"
	}
	if c.Token == "" {
		return name + " by API"
	}
	return name + " by API, token " + c.Token
}

// nameMost is how many bytes of a caller's name the audit log has: records are cut at 1 KiB, and the token comes after the name.
const nameMost = 200

// named is the name that a caller gives, as the audit log has it: quoted where it could be taken for more than a name.
func named(name string) string {
	name = shorten.To(name, nameMost)
	if strings.ContainsFunc(name, func(r rune) bool { return r == ',' || r == '"' || !unicode.IsPrint(r) }) {
		return strconv.Quote(name)
	}
	return name
}

// How a caller of pages is known.
const (
	LoginBrowser = "browser" // signed in with a token
	LoginProxy   = "proxy"   // named by a trusted proxy
)

// PageAuthor is the author of a change from a page in the audit log.
func (c Caller) PageAuthor() string {
	name := "dashboard"
	if c.Name != "" {
		name = named(c.Name) + " by dashboard"
	}
	if c.Token != "" {
		name += ", token " + c.Token
	}
	return name
}

// PageAuthor is the author, in the audit log, of a change that the caller makes on a page.
func PageAuthor(ctx context.Context) string { return CallerOf(ctx).PageAuthor() }

type callerKey struct{}

// WithCaller returns a context of a request that the caller sent.
func WithCaller(ctx context.Context, c Caller) context.Context {
	return context.WithValue(ctx, callerKey{}, c)
}

// CallerOf is who sent the request with this context; [RoleNone] outside of a server.
func CallerOf(ctx context.Context) Caller {
	c, _ := ctx.Value(callerKey{}).(Caller)
	return c
}
