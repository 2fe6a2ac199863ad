package foreign

import (
	"net/url"
	"strings"
)

// databaseVariable is where the URL of the database comes from when the file has
// none that can be translated.
const databaseVariable = "${DATABASE_URL}"

// Database makes the URL of the source, and says where it comes from.
func (im *File) Database() (text, from string) {
	im.Samples["DATABASE_URL"] = "postgres://127.0.0.1/app"
	for _, f := range []struct{ url, user, password string }{
		{"quarkus.datasource.jdbc.url", "quarkus.datasource.username", "quarkus.datasource.password"},
		{"quarkus.datasource.reactive.url", "quarkus.datasource.username", "quarkus.datasource.password"},
		{"spring.datasource.url", "spring.datasource.username", "spring.datasource.password"},
	} {
		s, ok := im.Settings[Canonical(f.url)]
		if !ok || s.Value == "" {
			continue
		}
		if text := im.translate(s, im.Settings[Canonical(f.user)], im.Settings[Canonical(f.password)]); text != "" {
			return text, f.url
		}
		return databaseVariable, "set it to the postgres:// URL of the tables"
	}
	im.Note(Setting{}, "the file names no data source: set DATABASE_URL to the postgres:// URL of the tables")
	return databaseVariable, "set it to the postgres:// URL of the tables"
}

// translate makes a postgres:// URL of a JDBC one; empty when it cannot.
func (im *File) translate(s, user, password Setting) string {
	parts := im.Resolve(s)
	if len(parts) == 0 || parts[0].Name != "" {
		im.Note(s, "%s is a variable that holds a JDBC URL, which Outrider cannot read: set DATABASE_URL to the postgres:// URL of the tables", s.Key)
		return ""
	}
	var b strings.Builder
	for _, p := range parts {
		b.WriteString(im.Render(p, "5432"))
	}
	text := strings.TrimPrefix(strings.TrimPrefix(b.String(), "jdbc:"), "vertx-reactive:")
	scheme, rest, ok := strings.Cut(text, "://")
	if !ok || scheme != "postgresql" && scheme != "postgres" {
		im.Note(s, "%s leads to no PostgreSQL: set DATABASE_URL to the postgres:// URL of the tables", s.Key)
		return ""
	}
	rest, query := cutOutside(rest, '?')
	if host, _ := cutOutside(rest, '/'); strings.Contains(host, "@") {
		im.Note(s, "%s: what is before @ is left out of the result, it may hold a password", s.Key)
		_, rest, _ = strings.Cut(rest, "@")
	}
	return "postgres://" + im.login(user, password) + rest + im.parameters(s, query)
}

// login is the user with the password's variable.
func (im *File) login(user, password Setting) string {
	if user.Value == "" {
		return ""
	}
	var b strings.Builder
	for _, p := range im.Resolve(user) {
		if p.Name == "" {
			p.Text = url.PathEscape(p.Text)
		}
		b.WriteString(im.Render(p, "user"))
	}
	if password.Value == "" {
		return b.String() + "@"
	}
	name := im.Secret(password, "DATABASE_PASSWORD")
	im.Note(password, "%s: special characters of the password in %s must be percent-encoded, as in every URL", password.Key, name)
	return b.String() + ":" + name + "@"
}

// Secret is the variable that a secret comes from: the one that the file names,
// or one of Outrider's. A default in the file is not taken over.
func (im *File) Secret(s Setting, ours string) string {
	parts, _ := Pieces(s.Value)
	name := ours
	if len(parts) == 1 && parts[0].Name != "" {
		name = Environment(parts[0].Name)
		if parts[0].Fallback != "" {
			im.Note(s, "%s: the default of %s is not taken over, it is a secret: set the variable", s.Key, name)
		}
	} else {
		im.Note(s, "%s is a secret and not taken over: put it into the environment variable %s", s.Key, name)
	}
	im.Samples[name] = "secret"
	return "${" + name + "}"
}

// parameters keeps those that mean the same to us.
func (im *File) parameters(s Setting, query string) string {
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
			im.Note(s, "%s: the parameter %s is left out", s.Key, name)
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
