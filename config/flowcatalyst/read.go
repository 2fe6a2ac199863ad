package flowcatalyst

import (
	"bytes"
	"fmt"
	"maps"
	"path/filepath"
	"slices"
	"strings"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
	"github.com/magiconair/properties"
)

// setting is a key of the file with its value as it is written.
type setting struct {
	key      string // dotted, without the profile
	value    string
	profiles []string // to which it is restricted; none: it is not
	line     int      // from 1; 0: unknown
}

// read returns the settings in their order.
func read(name string, text []byte) ([]setting, error) {
	if isEnvironment(name) {
		return readEnvironment(name, text)
	}
	switch strings.ToLower(filepath.Ext(name)) {
	case ".properties":
		return readProperties(name, text)
	case ".yaml", ".yml":
		return readYAML(name, text)
	}
	return nil, fmt.Errorf("%s: the name ends neither with .env, .properties nor .yaml: rename the file to what it is", name)
}

func readProperties(name string, text []byte) ([]setting, error) {
	loader := properties.Loader{Encoding: properties.UTF8, DisableExpansion: true}
	p, err := loader.LoadBytes(text)
	if err != nil {
		return nil, fmt.Errorf("%s: is not a .properties file: %w", name, err)
	}
	lines := keyLines(text)
	out := make([]setting, 0, p.Len())
	for _, key := range p.Keys() {
		value, _ := p.Get(key)
		s := setting{value: strings.TrimSpace(value), line: lines[key]}
		s.key, s.profiles = cutProfile(key)
		out = append(out, s)
	}
	return out, nil
}

// keyLines returns the line on which each key stands last. The library does not
// tell; keys that are written with escapes are not found.
func keyLines(text []byte) map[string]int {
	lines := map[string]int{}
	n, continued := 0, false
	for line := range bytes.Lines(text) {
		n++
		t := strings.TrimSpace(string(line))
		was := continued
		continued = strings.HasSuffix(t, `\`) && !strings.HasSuffix(t, `\\`)
		if was || t == "" || t[0] == '#' || t[0] == '!' {
			continue
		}
		if i := strings.IndexAny(t, "=: \t"); i >= 0 {
			t = t[:i]
		}
		lines[t] = n
	}
	return lines
}

// cutProfile takes %prod.key and %{dev,test}.key apart.
func cutProfile(key string) (rest string, profiles []string) {
	if !strings.HasPrefix(key, "%") {
		return key, nil
	}
	profile, rest, _ := strings.Cut(key[1:], ".")
	return rest, strings.Split(strings.Trim(profile, `{}"`), ",")
}

func readYAML(name string, text []byte) ([]setting, error) {
	// The lines of a parser's excerpt may hold a secret: only the location is reported.
	file, err := parser.ParseBytes(text, 0)
	if err != nil {
		place := ""
		if first, _, ok := strings.Cut(err.Error(), "]"); ok && strings.HasPrefix(first, "[") {
			place = " at line:column " + first[1:]
		}
		return nil, fmt.Errorf("%s: is not valid YAML%s", name, place)
	}
	var out []setting
	for _, doc := range file.Docs {
		flat := flatten(nil, "", doc.Body, 0)
		var only []string
		for _, s := range flat {
			if c := canonical(s.key); c == "springconfigactivateonprofile" || c == "springprofiles" {
				only = strings.Split(strings.ReplaceAll(s.value, " ", ""), ",")
			}
		}
		for _, s := range flat {
			if s.key, s.profiles = cutProfile(s.key); s.profiles == nil {
				s.profiles = only
			}
			out = append(out, s)
		}
	}
	return out, nil
}

// deepest bounds the nesting of a file.
const deepest = 100

// flatten appends the scalars below a node with their dotted keys.
func flatten(out []setting, key string, n ast.Node, depth int) []setting {
	if depth > deepest {
		return out
	}
	switch n := n.(type) {
	case *ast.MappingNode:
		for _, v := range n.Values {
			out = flatten(out, key, v, depth+1)
		}
	case *ast.MappingValueNode:
		name := strings.Trim(n.Key.String(), `"'`)
		if key != "" {
			name = key + "." + name
		}
		return flatten(out, name, n.Value, depth+1)
	case *ast.AnchorNode:
		return flatten(out, key, n.Value, depth+1)
	case *ast.TagNode:
		return flatten(out, key, n.Value, depth+1)
	case *ast.NullNode:
		out = append(out, setting{key: key, line: n.GetToken().Position.Line})
	case *ast.LiteralNode:
		out = append(out, setting{key: key, value: strings.TrimSpace(n.Value.Value), line: n.GetToken().Position.Line})
	case ast.ScalarNode:
		// As it is written: 1_000 and 1e3 are the reader's business.
		t := n.GetToken()
		out = append(out, setting{key: key, value: strings.TrimSpace(t.Value), line: t.Position.Line})
	}
	return out
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
