package sqlite

import (
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"strings"
)

// location is what a path means to SQLite.
type location struct {
	name   string // of the file as the system knows it, or of the database in memory
	query  string // of a URI
	memory bool
	moded  bool // the URI says how it is opened
}

// File returns the name of the file that a path means, as [Open] takes it: a path is
// the name itself, the path of a "file:" URI is percent-encoded. Everything that looks
// at the file without SQLite goes by it. Empty: the database is in memory. An error
// says what is wrong with the path.
func File(path string) (string, error) {
	l, err := locate(path)
	if err != nil || l.memory {
		return "", err
	}
	return l.name, nil
}

// locate reads a path by SQLite's rules (https://www.sqlite.org/uri.html).
func locate(path string) (location, error) {
	switch path {
	case "":
		return location{}, errors.New("sqlite: the path of the database is empty")
	case ":memory:":
		return location{}, errors.New("sqlite: every connection to :memory: is a database of its own; " +
			"use file:NAME?mode=memory&cache=shared")
	}
	rest, uri := strings.CutPrefix(path, "file:")
	if !uri {
		return location{name: path}, nil
	}
	rest, _, _ = strings.Cut(rest, "#")
	name, query, _ := strings.Cut(rest, "?")
	if after, ok := strings.CutPrefix(name, "//"); ok {
		host, local, _ := strings.Cut(after, "/")
		if host != "" && host != "localhost" {
			return location{}, fmt.Errorf("sqlite: %s: %q is read as the name of a machine: write file:NAME for a relative path, file:/NAME for an absolute one", path, host)
		}
		name = "/" + local
	}
	l := location{name: decoded(name), query: query}
	params, err := url.ParseQuery(query)
	if err != nil {
		return location{}, fmt.Errorf("sqlite: %s: its parameters cannot be read: %w", path, err)
	}
	l.moded = params.Has("mode")
	l.memory = l.name == ":memory:" || params.Get("mode") == "memory" || params.Get("vfs") == "memdb"
	if l.name == "" && !l.memory || strings.Contains(l.name, "\x00") {
		return location{}, fmt.Errorf("sqlite: %s names no file", path)
	}
	return l, nil
}

// decoded replaces %HH by the byte that it stands for. Any other % stands for itself,
// as in SQLite.
func decoded(text string) string {
	var out strings.Builder
	for {
		plain, rest, found := strings.Cut(text, "%")
		out.WriteString(plain)
		if !found {
			return out.String()
		}
		text = rest
		if len(rest) >= 2 {
			if b, err := url.PathUnescape("%" + rest[:2]); err == nil {
				out.WriteString(b)
				text = rest[2:]
				continue
			}
		}
		out.WriteByte('%')
	}
}

// dataSource is the location with parameters, as the driver reads it.
func (l location) dataSource(params url.Values) string {
	name := (&url.URL{Path: l.name}).EscapedPath()
	if strings.HasPrefix(name, "//") {
		name = "//" + name // otherwise it would begin with a machine's name
	}
	query := params.Encode()
	if l.query != "" {
		query = l.query + "&" + query
	}
	return "file:" + name + "?" + query
}

// resolved is the name of the file whatever way it is named: links are followed.
func (l location) resolved() (string, error) {
	name, err := filepath.EvalSymlinks(l.name)
	if err == nil {
		name, err = filepath.Abs(name)
	}
	if err != nil {
		return "", fmt.Errorf("find the database file: %w", err)
	}
	return name, nil
}
