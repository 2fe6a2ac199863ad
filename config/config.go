package config

import (
	_ "embed"
	"maps"
	"net"
	"reflect"
	"regexp"
	"slices"
	"strings"

	"github.com/outriderhq/outrider/config/internal/form"
)

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
	Telemetry      *Telemetry             `yaml:"telemetry" doc:"Where spans of the tracing middleware, and metrics, are sent by OTLP. Default: as OpenTelemetry's environment variables say."`
	Sources        map[string]Source      `yaml:"sources" required:"true" min:"1" doc:"Sources of messages, by name."`
	Destinations   map[string]Destination `yaml:"destinations" required:"true" min:"1" doc:"Destinations of messages, by name."`
	Routes         []Route                `yaml:"routes" required:"true" min:"1" doc:"Routes from a source to a destination, by name. The name is stored with the progress: a renamed route is a new one."`

	// Warnings are findings that do not prevent a start, in order of line.
	Warnings []*Error `yaml:"-"`

	// Partial reports that there are errors that [LoadState] or [LoadAddresses] left
	// out. Such a configuration cannot be run.
	Partial bool `yaml:"-"`

	// Notes say where a default does what a reader of the file might not expect,
	// in order of line; `outrider validate` shows them.
	Notes []*Error `yaml:"-"`

	files form.Contents // of the files that sections name, as they were read
}

// State is the database of cursors, leases and parked messages.
type State struct {
	URL SecretURL `yaml:"url" doc:"postgres:// or mysql:// URL, or the path of an SQLite file. Default: the database of each route's source."`
	TLS TLS       `yaml:"tls" doc:"Encryption of the connections to url, as for a source."`

	Schema SchemaName `yaml:"schema" doc:"Schema of the state tables in PostgreSQL, as in SQL; init creates it. Default: the first schema of the search path with these tables, otherwise the first."`
}

// Parked bounds how long dead messages are kept.
type Parked struct {
	Keep Duration `yaml:"keep" required:"true" min:"1h" max:"3650d" doc:"Dead messages of the configured routes are deleted after this time; checked every hour, audited. Messages that wait, retry or are held stay."`
}

// Admin is the HTTP server for health, metrics and operators.
type Admin struct {
	Listen string   `yaml:"listen" doc:"Address as host:port, or off for no server. An address that other machines can reach needs tokens_file. Default: 127.0.0.1:8080 with outrider run; no server in a Go program that embeds Outrider."`
	Probes string   `yaml:"probes" doc:"Second address as host:port, which answers /livez and /readyz without a token, and nothing else; also with listen: off. For example 0.0.0.0:8081 in a container. Default: none, the address of listen answers them too."`
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
// has another.
const DefaultAdminListen = "127.0.0.1:8080"

// Enabled reports whether the server is wanted.
func (a Admin) Enabled() bool { return a.Listen != "" && a.Listen != "off" }

func (a *Admin) check(c *form.Checker, at form.Location) {
	if at.Has("listen") && a.Listen == "" {
		a.Listen = "off" // an empty text is not the default
	}
	a.checkProbes(c, at)
	if !a.Enabled() {
		return
	}
	tokens := at.Has("tokens_file") || at.Has("operate_tokens_file") || at.Has("admin_tokens_file")
	a.checkTokens(c, at, tokens || a.IdentityHeader != "")
	a.checkIdentity(c, at)
	if err := hostPort(a.Listen, true); err != nil {
		c.Add(at.Child("listen"), "%v", err).Fix("for example 127.0.0.1:8080, or off for no server")
	} else if !loopback(hostOf(a.Listen)) && !tokens && a.IdentityHeader == "" {
		c.Add(at.Child("listen"), "other machines can reach this address, and no token is set").
			Fix("set tokens_file: /etc/outrider/tokens, or listen on 127.0.0.1")
	}
	for i, name := range a.Hosts {
		if !adminHost.MatchString(name) {
			c.Add(at.Child("hosts").Item(i), "is not the name of a host").Fix("for example outrider.internal, without a port")
		}
	}
}

func (a *Admin) checkProbes(c *form.Checker, at form.Location) {
	if a.Probes == "" {
		return
	}
	if err := hostPort(a.Probes, true); err != nil {
		c.Add(at.Child("probes"), "%v", err).Fix("for example 0.0.0.0:8081; leave it out for no second address")
		return
	}
	if sameAddress(a.Listen, a.Probes) {
		c.Add(at.Child("probes"), "is the address of listen (%s) too", a.Listen).Fix("choose another port")
	}
}

// sameAddress reports whether only one server can listen at two addresses.
func sameAddress(a, b string) bool {
	hostA, portA, errA := net.SplitHostPort(a)
	hostB, portB, errB := net.SplitHostPort(b)
	everywhere := func(host string) bool { return host == "" || net.ParseIP(host).IsUnspecified() }
	return errA == nil && errB == nil && portA == portB && portA != "0" && (hostA == hostB || everywhere(hostA) || everywhere(hostB))
}

// leastToken is the length of tokens that can change something.
const leastToken = 32

func (a *Admin) checkTokens(c *form.Checker, at form.Location, tokens bool) {
	if tokens && at.Has("anonymous") {
		c.Add(at.Child("anonymous"), "has no effect beside tokens").Fix("leave it out; each token has the role of its file, each name that of identity_roles")
	}
	for _, f := range []struct {
		key    string
		tokens []Secret
	}{{"operate_tokens_file", a.OperateTokens}, {"admin_tokens_file", a.AdminTokens}} {
		for i, t := range f.tokens {
			if n := len(t.Reveal()); n < leastToken {
				c.Add(at.Child(f.key), "token %d of the file has %d bytes; it needs %d", i+1, n, leastToken).Fix("generate one with: openssl rand -hex 32")
			}
		}
	}
}

// checkIdentity checks the keys for a proxy that names callers.
func (a *Admin) checkIdentity(c *form.Checker, at form.Location) {
	if a.IdentityHeader == "" {
		for _, key := range []string{"identity_proxies", "identity_roles"} {
			if at.Has(key) {
				c.Add(at.Child(key), "has no effect without identity_header").Fix("set identity_header: X-Forwarded-User, or leave it out")
			}
		}
		return
	}
	if !headerName.MatchString(a.IdentityHeader) {
		c.Add(at.Child("identity_header"), "is not the name of a header").Fix("for example X-Forwarded-User")
	}
	for _, key := range []string{"identity_proxies", "identity_roles"} {
		if !at.Has(key) {
			c.Add(at.Child("identity_header"), "needs %s beside it", key).Fix("identity_proxies: [10.1.2.3/32] and identity_roles: {\"*\": read}")
		}
	}
	networks(c, at.Child("identity_proxies"), a.IdentityProxies)
	for _, name := range slices.Sorted(maps.Keys(a.IdentityRoles)) {
		if !slices.Contains([]string{"read", "operate", "admin"}, a.IdentityRoles[name]) {
			c.Add(at.Child("identity_roles").Child(name), "is not a role").Fix("one of read, operate, admin")
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
	return open(path, env, nil)
}

// LoadState is [Load] for commands that use the state and run nothing: errors
// in the sections destinations and admin, such as a secret that only the relay's
// own environment has, are left out, and [Config.Partial] reports that there were some.
func LoadState(path string, env func(string) (string, bool)) (*Config, error) {
	return open(path, env, func(e *Error) bool {
		section, _, _ := strings.Cut(e.Path, ".")
		return section == "destinations" || section == "admin"
	})
}

// LoadAddresses is [Load] for a command that only asks a relay at the addresses of the section admin: all errors
// elsewhere are left out. A file that somebody edits wrongly says nothing about the relay that runs.
func LoadAddresses(path string, env func(string) (string, bool)) (*Config, error) {
	return open(path, env, func(e *Error) bool { return e.Path != "admin.listen" && e.Path != "admin.probes" })
}

func open(path string, env func(string) (string, bool), leaveOut func(*Error) bool) (*Config, error) {
	c, err := declaration.Open(path, env)
	if err != nil {
		return nil, err
	}
	return decode(c, leaveOut)
}

// Parse is [Load] for a text; name is its file in messages.
func Parse(name string, src []byte, env func(string) (string, bool)) (*Config, error) {
	return decode(declaration.Text(name, string(src), env), nil)
}

// Build completes and checks a configuration built in Go, by the rules of the
// file: fields that are zero get the file's defaults, and the error is an
// [*Errors] whose paths name the fields as the file does. Nothing in it is a
// variable: ${NAME} is that text. A middleware list that is nil is the default
// stack, an empty one no middleware.
//
// The contents of secret files (Admin.Tokens, Webhook.SecretsFile) cannot be given
// here, because a file has only their path.
func Build(c Config) (*Config, error) {
	text, err := form.Write(c, hasPresets)
	if err != nil {
		return nil, err
	}
	return Parse("configuration", []byte(text), nil)
}

// hasPresets reports whether layouts or destinations have defaults of their own for a section: then one that is set in
// Go is written, even with the usual default.
func hasPresets(t reflect.Type) bool {
	return t == reflect.TypeFor[Poll]() || t == reflect.TypeFor[Retry]() || t == reflect.TypeFor[Poison]()
}

// decode fills a configuration from its text; see [form.Checker.Decode].
func decode(c *form.Checker, leaveOut func(*Error) bool) (cfg *Config, err error) {
	cfg = &Config{}
	if cfg.Partial, err = c.Decode(cfg, leaveOut); err != nil {
		return nil, err
	}
	cfg.Routes = expandRoutes(cfg.Routes)
	cfg.Warnings, cfg.Notes = c.Findings()
	cfg.files = form.ContentsOf(cfg)
	return cfg, nil
}

// String is [Config.Redacted].
func (cfg Config) String() string { return cfg.Redacted() }

// GoString is [Config.Redacted], for %#v.
func (cfg Config) GoString() string { return cfg.Redacted() }

// Redacted writes the configuration as YAML in the form of the file: with its
// defaults, lists in to: written out, and every secret as ***.
func (cfg Config) Redacted() string { return form.Redact(&cfg) }
