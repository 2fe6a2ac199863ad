package foreign

import (
	"net/url"
	"strings"
)

// databaseVariable is where the URL of the database comes from when the file has
// none that can be translated.
const databaseVariable = "${DATABASE_URL}"

// Database makes the URL of the source, and says where it comes from.
func (f *File) Database() (text, from string) {
	f.Samples["DATABASE_URL"] = "postgres://127.0.0.1/app"
	for _, keys := range []struct{ url, user, password string }{
		{"quarkus.datasource.jdbc.url", "quarkus.datasource.username", "quarkus.datasource.password"},
		{"quarkus.datasource.reactive.url", "quarkus.datasource.username", "quarkus.datasource.password"},
		{"spring.datasource.url", "spring.datasource.username", "spring.datasource.password"},
	} {
		s, ok := f.Settings[Canonical(keys.url)]
		if !ok || s.Value == "" {
			continue
		}
		if text := f.translate(s, f.Settings[Canonical(keys.user)], f.Settings[Canonical(keys.password)]); text != "" {
			return text, keys.url
		}
		return databaseVariable, "set it to the postgres:// URL of the tables"
	}
	f.Note(Setting{}, "the file names no data source: set DATABASE_URL to the postgres:// URL of the tables")
	return databaseVariable, "set it to the postgres:// URL of the tables"
}

// translate makes a postgres:// URL of a JDBC one; empty when it cannot.
func (f *File) translate(s, user, password Setting) string {
	parts := f.Resolve(s)
	if len(parts) == 0 || parts[0].Name != "" {
		f.Note(s, "%s is a variable that holds a JDBC URL, which Outrider cannot read: set DATABASE_URL to the postgres:// URL of the tables", s.Key)
		return ""
	}
	var b strings.Builder
	for _, p := range parts {
		b.WriteString(f.Render(p, "5432"))
	}
	text := strings.TrimPrefix(strings.TrimPrefix(b.String(), "jdbc:"), "vertx-reactive:")
	scheme, rest, ok := strings.Cut(text, "://")
	if !ok || scheme != "postgresql" && scheme != "postgres" {
		f.Note(s, "%s leads to no PostgreSQL: set DATABASE_URL to the postgres:// URL of the tables", s.Key)
		return ""
	}
	rest, query := cutOutside(rest, '?')
	if host, _ := cutOutside(rest, '/'); strings.Contains(host, "@") {
		f.Note(s, "%s: what is before @ is left out of the result, it may hold a password", s.Key)
		_, rest, _ = strings.Cut(rest, "@")
	}
	return "postgres://" + f.login(user, password) + rest + f.parameters(s, query)
}

// login is the user with the password's variable.
func (f *File) login(user, password Setting) string {
	if user.Value == "" {
		return ""
	}
	var b strings.Builder
	for _, p := range f.Resolve(user) {
		if p.Name == "" {
			p.Text = url.PathEscape(p.Text)
		}
		b.WriteString(f.Render(p, "user"))
	}
	if password.Value == "" {
		return b.String() + "@"
	}
	name := f.Secret(password, "DATABASE_PASSWORD")
	f.Note(password, "%s: special characters of the password in %s must be percent-encoded, as in every URL", password.Key, name)
	return b.String() + ":" + name + "@"
}

// Secret is the variable that a secret comes from: the one that the file names,
// or one of Outrider's. A default in the file is not taken over.
func (f *File) Secret(s Setting, ours string) string {
	parts, _ := Pieces(s.Value)
	name := ours
	if len(parts) == 1 && parts[0].Name != "" {
		name = Environment(parts[0].Name)
		if parts[0].Fallback != "" {
			f.Note(s, "%s: the default of %s is not taken over, it is a secret: set the variable", s.Key, name)
		}
	} else {
		f.Note(s, "%s is a secret and not taken over: put it into the environment variable %s", s.Key, name)
	}
	f.Samples[name] = "secret"
	return "${" + name + "}"
}

// parameters keeps those that mean the same to us.
func (f *File) parameters(s Setting, query string) string {
	kept := []string{}
	for p := range strings.SplitSeq(query, "&") {
		name, value, _ := strings.Cut(p, "=")
		switch name {
		case "":
		case "sslmode":
			kept = append(kept, p)
		case "currentSchema":
			kept = append(kept, "search_path="+value)
		case "ApplicationName":
			kept = append(kept, "application_name="+value)
		default:
			f.Note(s, "%s: the parameter %s is left out", s.Key, name)
		}
	}
	if len(kept) == 0 {
		return ""
	}
	return "?" + strings.Join(kept, "&")
}

// cutOutside cuts at the first separator that is not in a placeholder.
func cutOutside(text string, sep byte) (before, after string) {
	depth := 0
	for i := range len(text) {
		switch {
		case strings.HasPrefix(text[i:], "${"):
			depth++
		case text[i] == '}' && depth > 0:
			depth--
		case text[i] == sep && depth == 0:
			if sep == '/' {
				return text[:i], text[i:]
			}
			return text[:i], text[i+1:]
		}
	}
	return text, ""
}
