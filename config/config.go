package config

import (
	_ "embed"
	"fmt"
	"maps"
	"os"
	"regexp"
	"slices"
	"strings"
	"time"
)

// maxFile is the largest configuration file that is read, in bytes.
const maxFile = 1 << 20

// Example is a complete configuration that needs only DATABASE_URL and
// API_TOKEN in the environment.
//
//go:embed example.yaml
var Example string

// Config is a whole, checked configuration. Printing it shows no secrets.
type Config struct {
	State          State                  `yaml:"state" doc:"Database of cursors, leases and parked messages."`
	Parked         *Parked                `yaml:"parked" doc:"How long dead messages are kept. Default: until they are purged."`
	Memory         Size                   `yaml:"memory" default:"64MiB" min:"8MiB" doc:"Memory budget for the messages of the whole process."`
	Lease          Duration               `yaml:"lease" default:"10s" min:"1s" max:"10m" doc:"How long an instance without a heartbeat keeps its lanes before another one takes them."`
	SettleInterval Duration               `yaml:"settle_interval" default:"20ms" min:"1ms" max:"10s" doc:"How long a result may wait to be settled together with others. After a crash, messages of about this time are delivered again."`
	DrainTimeout   Duration               `yaml:"drain_timeout" default:"30s" min:"1ms" max:"1h" doc:"Longest time that a shutdown or a reload waits for deliveries in flight. Unanswered ones are delivered again at the next start."`
	Watchdog       Duration               `yaml:"watchdog" default:"60s" min:"0s" max:"24h" doc:"How long a row may be visible and not settled before the watchdog, which reads the tables independently, logs and counts it as overdue. 0s: no watchdog."`
	Admin          Admin                  `yaml:"admin" doc:"Health, metrics and the admin API."`
	Log            Log                    `yaml:"log" doc:"Outrider's own log, on standard error."`
	Statistics     Statistics             `yaml:"statistics" doc:"Log lines that sum up the deliveries."`
	Sources        map[string]Source      `yaml:"sources" required:"true" min:"1" doc:"Sources of messages, by name."`
	Destinations   map[string]Destination `yaml:"destinations" required:"true" min:"1" doc:"Destinations of messages, by name."`
	Routes         []Route                `yaml:"routes" required:"true" min:"1" doc:"Routes from a source to a destination, by name. The name is stored with the progress: a renamed route is a new one."`

	// Warnings are findings that do not prevent a start, in order of line.
	Warnings []*Error `yaml:"-"`

	// Partial reports that destinations, or the admin section, have errors that
	// [LoadState] left out. Such a configuration cannot be run.
	Partial bool `yaml:"-"`

	// Notes say where a default does what a reader of the file might not expect,
	// in order of line; `outrider validate` shows them.
	Notes []*Error `yaml:"-"`
}

// State says where Outrider remembers things.
type State struct {
	URL SecretURL `yaml:"url" doc:"postgres:// or mysql:// URL, or the path of an SQLite file. Default: the database of each route's source."`
	TLS TLS       `yaml:"tls" doc:"Encryption of the connections to url, as for a source."`

	Schema SchemaName `yaml:"schema" doc:"Schema of the state tables in PostgreSQL, as in SQL; init creates it. Default: the first schema of the search path with these tables, otherwise the first."`
}

// Parked says how long parked messages are kept that nothing waits behind.
type Parked struct {
	Keep Duration `yaml:"keep" required:"true" min:"1h" max:"3650d" doc:"Dead messages of the configured routes are deleted after this time; checked every hour, audited. Messages that wait, retry or are held stay."`
}

// Admin is the HTTP server for health, metrics and operators.
type Admin struct {
	Listen string   `yaml:"listen" doc:"Address as host:port, or off for no server. An address that other machines can reach needs tokens_file. Default: 127.0.0.1:8080 with outrider run; no server in a Go program that embeds Outrider."`
	Tokens []Secret `yaml:"tokens_file" file:"lines" doc:"File with the bearer tokens of the role read (everything but payloads), one per line; blank lines and lines that begin with # are ignored."`

	OperateTokens []Secret `yaml:"operate_tokens_file" file:"lines" doc:"File with the tokens of the role operate, which may also see payloads, pause, resume, redrive and skip. A token has at least 32 bytes; openssl rand -hex 32 generates one."`
	AdminTokens   []Secret `yaml:"admin_tokens_file" file:"lines" doc:"File with the tokens of the role admin, which may do everything, such as purge, seek and reload."`
	Anonymous     string   `yaml:"anonymous" enum:"read|operate|admin" default:"read" doc:"Role of callers if no file with tokens is set, which is possible on a loopback address only."`

	IdentityHeader  string            `yaml:"identity_header" doc:"Header in which a proxy in front of the server names the caller, such as X-Forwarded-User. Ignored on requests that do not come from identity_proxies."`
	IdentityProxies []string          `yaml:"identity_proxies" doc:"Networks of these proxies, such as 10.1.2.3/32. They must remove the header from requests of clients."`
	IdentityRoles   map[string]string `yaml:"identity_roles" doc:"Role of each name: read, operate or admin. The name * matches every other name. A caller without a role is refused."`

	Hosts []string `yaml:"hosts" doc:"Host names that requests may use, such as outrider.internal. IP addresses, localhost and the host of listen are always allowed; requests to other names are refused, because a page of another site could have sent them."`
}

// adminHost is a name without a port.
var adminHost = regexp.MustCompile(`^[A-Za-z0-9_]([A-Za-z0-9_.-]{0,252}[A-Za-z0-9_])?$`)

// DefaultAdminListen is the admin address of the outrider command, unless the file
// says otherwise.
const DefaultAdminListen = "127.0.0.1:8080"

// Enabled reports whether the server is wanted.
func (a Admin) Enabled() bool { return a.Listen != "" && a.Listen != "off" }

func (a *Admin) check(c *checker, at place) {
	if at.has("listen") && a.Listen == "" {
		a.Listen = "off" // it was said, so no default is meant
	}
	if !a.Enabled() {
		return
	}
	tokens := at.has("tokens_file") || at.has("operate_tokens_file") || at.has("admin_tokens_file")
	a.checkTokens(c, at, tokens || a.IdentityHeader != "")
	a.checkIdentity(c, at)
	if err := hostPort(a.Listen, true); err != nil {
		c.add(at.child("listen"), "%v", err).hint("for example 127.0.0.1:8080, or off for no server")
	} else if !loopback(hostOf(a.Listen)) && !tokens && a.IdentityHeader == "" {
		c.add(at.child("listen"), "other machines can reach this address, and no token is set").
			hint("set tokens_file: /etc/outrider/tokens, or listen on 127.0.0.1")
	}
	for i, name := range a.Hosts {
		if !adminHost.MatchString(name) {
			c.add(at.child("hosts").item(i), "is not the name of a host").hint("for example outrider.internal, without a port")
		}
	}
}

// leastToken is the length of tokens that can change something.
const leastToken = 32

func (a *Admin) checkTokens(c *checker, at place, tokens bool) {
	if tokens && at.has("anonymous") {
		c.add(at.child("anonymous"), "has no effect beside tokens").hint("leave it out; each token has the role of its file, each name that of identity_roles")
	}
	for _, f := range []struct {
		key    string
		tokens []Secret
	}{{"operate_tokens_file", a.OperateTokens}, {"admin_tokens_file", a.AdminTokens}} {
		for i, t := range f.tokens {
			if n := len(t.Reveal()); n < leastToken {
				c.add(at.child(f.key), "token %d of the file has %d bytes; it needs %d", i+1, n, leastToken).hint("generate one with: openssl rand -hex 32")
			}
		}
	}
}

// checkIdentity checks what is said of a proxy that names callers.
func (a *Admin) checkIdentity(c *checker, at place) {
	if a.IdentityHeader == "" {
		for _, key := range []string{"identity_proxies", "identity_roles"} {
			if at.has(key) {
				c.add(at.child(key), "has no effect without identity_header").hint("set identity_header: X-Forwarded-User, or leave it out")
			}
		}
		return
	}
	if !headerName.MatchString(a.IdentityHeader) {
		c.add(at.child("identity_header"), "is not the name of a header").hint("for example X-Forwarded-User")
	}
	for _, key := range []string{"identity_proxies", "identity_roles"} {
		if !at.has(key) {
			c.add(at.child("identity_header"), "needs %s beside it", key).hint("identity_proxies: [10.1.2.3/32] and identity_roles: {\"*\": read}")
		}
	}
	c.networks(at.child("identity_proxies"), a.IdentityProxies)
	for _, name := range slices.Sorted(maps.Keys(a.IdentityRoles)) {
		if !slices.Contains([]string{"read", "operate", "admin"}, a.IdentityRoles[name]) {
			c.add(at.child("identity_roles").child(name), "is not a role").hint("one of read, operate, admin")
		}
	}
}

// Log configures Outrider's own log.
type Log struct {
	Level  string `yaml:"level" enum:"debug|info|warn|error" default:"info" doc:"Lowest level that is written."`
	Format string `yaml:"format" enum:"text|json" default:"text" doc:"Format of the log lines."`
}

// Load reads and checks the file. env looks variables up, as [os.LookupEnv]
// does; nil knows none. When anything is wrong with the content the error is an
// [*Errors] that holds all of it.
func Load(path string, env func(string) (string, bool)) (*Config, error) {
	c, err := readFile(path, env)
	if err != nil {
		return nil, err
	}
	return c.config(nil)
}

// LoadState is [Load] for those who look after the state and run nothing: errors
// in the sections destinations and admin, such as a secret that only the relay's
// own environment has, are left out, and [Config.Partial] says that there were some.
func LoadState(path string, env func(string) (string, bool)) (*Config, error) {
	c, err := readFile(path, env)
	if err != nil {
		return nil, err
	}
	return c.config(func(e *Error) bool {
		section, _, _ := strings.Cut(e.Path, ".")
		return section == "destinations" || section == "admin"
	})
}

func readFile(path string, env func(string) (string, bool)) (*checker, error) {
	info, err := os.Stat(path)
	if err != nil {
		return nil, fmt.Errorf("config: %w", err)
	}
	if info.Size() > maxFile {
		return nil, fmt.Errorf("config: %s has %d bytes, the limit is %d", path, info.Size(), maxFile)
	}
	src, err := os.ReadFile(path)
	if err != nil {
		return nil, fmt.Errorf("config: %w", err)
	}
	c := newChecker(path, string(src), env)
	c.exposed = open(info)
	return c, nil
}

// Parse is [Load] for text that is already in memory; name stands for the file
// in messages.
func Parse(name string, src []byte, env func(string) (string, bool)) (*Config, error) {
	return newChecker(name, string(src), env).config(nil)
}

// config reads and checks the whole file. Errors that leaveOut selects do not
// count where there are no others; nil selects none.
func (c *checker) config(leaveOut func(*Error) bool) (*Config, error) {
	root := c.read()
	if root == nil {
		return nil, c.result()
	}
	cfg := &Config{}
	c.decodeRoot(cfg, root)
	if leaveOut != nil {
		if others := slices.DeleteFunc(slices.Clone(c.errors), leaveOut); len(others) == 0 && len(c.errors) > 0 {
			cfg.Partial, c.errors = true, nil
		}
	}
	if err := c.result(); err != nil {
		return nil, err
	}
	if c.exposed && c.literal != nil {
		c.warn(*c.literal, "is a secret, and every user of this machine can read this file").
			hint("chmod 600 for the user that runs Outrider, or keep the secret in the environment or in a file of its own")
	}
	cfg.Routes = expandRoutes(cfg.Routes)
	cfg.Warnings, cfg.Notes = c.finish(c.warned), c.finish(c.noted)
	return cfg, nil
}

// Std returns the duration as the standard library has it.
func (d Duration) Std() time.Duration { return time.Duration(d) }
