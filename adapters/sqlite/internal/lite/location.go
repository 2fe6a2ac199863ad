package lite

import (
	"errors"
	"fmt"
	"net/url"
	"path/filepath"
	"strings"
)

// Location is a path as SQLite reads it.
type Location struct {
	name   string // of the file as the system knows it, or of the database in memory
	query  string // of a URI
	memory bool
	moded  bool // the URI says how it is opened
}

// Name is that of the file as the system knows it, or of the database in memory.
func (l Location) Name() string { return l.name }

// Memory reports whether the database is in memory.
func (l Location) Memory() bool { return l.memory }

// File returns the name of the file that a path means, as [Open] takes it: a path is
// the name itself, the path of a "file:" URI is percent-encoded. Everything that looks
// at the file without SQLite goes by it. Empty: the database is in memory. An error
// says what is wrong with the path.
func File(path string) (string, error) {
	l, err := Locate(path)
	if err != nil || l.memory {
		return "", err
	}
	return l.name, nil
}

// Locate reads a path by SQLite's rules (https://www.sqlite.org/uri.html).
func Locate(path string) (Location, error) {
	switch path {
	case "":
		return Location{}, errors.New("sqlite: the path of the database is empty")
	case ":memory:":
		return Location{}, errors.New("sqlite: every connection to :memory: is a database of its own; " +
			"use file:NAME?mode=memory&cache=shared")
	}
	rest, uri := strings.CutPrefix(path, "file:")
	if !uri {
		return Location{name: path}, nil
	}
	rest, _, _ = strings.Cut(rest, "#")
	name, query, _ := strings.Cut(rest, "?")
	if after, ok := strings.CutPrefix(name, "//"); ok {
		host, local, _ := strings.Cut(after, "/")
		if host != "" && host != "localhost" {
			return Location{}, fmt.Errorf("sqlite: %s: %q is read as the name of a machine: write file:NAME for a relative path, file:/NAME for an absolute one", path, host)
		}
		name = "/" + local
	}
	l := Location{name: decoded(name), query: query}
	params, err := url.ParseQuery(query)
	if err != nil {
		return Location{}, fmt.Errorf("sqlite: %s: its parameters cannot be read: %w", path, err)
	}
	l.moded = params.Has("mode")
	l.memory = l.name == ":memory:" || params.Get("mode") == "memory" || params.Get("vfs") == "memdb"
	if l.name == "" && !l.memory || strings.Contains(l.name, "\x00") {
		return Location{}, fmt.Errorf("sqlite: %s names no file", path)
	}
	return l, nil
}

// decoded replaces %HH by the byte that it means. Any other % stays,
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
func (l Location) dataSource(params url.Values) string {
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

// Resolved is the name of the file whatever way it is named: links are followed.
func (l Location) Resolved() (string, error) {
	name, err := filepath.EvalSymlinks(l.name)
	if err == nil {
		name, err = filepath.Abs(name)
	}
	if err != nil {
		return "", fmt.Errorf("find the database file: %w", err)
	}
	return name, nil
}
