package foreign

import (
	"bytes"
	"fmt"
	"path/filepath"
	"strings"

	"github.com/goccy/go-yaml/ast"
	"github.com/goccy/go-yaml/parser"
	"github.com/magiconair/properties"
)

// Setting is a key of the file with its value as it is written.
type Setting struct {
	Key      string // dotted, without the profile
	Value    string
	Profiles []string // to which it is restricted; none: it is not
	Line     int      // from 1; 0: unknown
}

// Read returns the settings of a file in their order: one of the environment (.env, .env.production, x.env), or one whose name ends with
// .properties, .yaml, .yml or .json.
func Read(name string, text []byte) ([]Setting, error) {
	if IsEnvironment(name) {
		return readEnvironment(name, text)
	}
	switch strings.ToLower(filepath.Ext(name)) {
	case ".properties":
		return readProperties(name, text)
	case ".yaml", ".yml", ".json":
		return readYAML(name, text)
	}
	return nil, fmt.Errorf("%s: the name ends neither with .env, .properties nor .yaml: rename the file to what it is", name)
}

func readProperties(name string, text []byte) ([]Setting, error) {
	loader := properties.Loader{Encoding: properties.UTF8, DisableExpansion: true}
	p, err := loader.LoadBytes(text)
	if err != nil {
		return nil, fmt.Errorf("%s: is not a .properties file: %w", name, err)
	}
	lines := keyLines(text)
	out := make([]Setting, 0, p.Len())
	for _, key := range p.Keys() {
		value, _ := p.Get(key)
		s := Setting{Value: strings.TrimSpace(value), Line: lines[key]}
		s.Key, s.Profiles = cutProfile(key)
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

func readYAML(name string, text []byte) ([]Setting, error) {
	// The lines of a parser's excerpt may hold a secret: only the location is reported.
	file, err := parser.ParseBytes(text, 0)
	if err != nil {
		place := ""
		if first, _, ok := strings.Cut(err.Error(), "]"); ok && strings.HasPrefix(first, "[") {
			place = " at line:column " + first[1:]
		}
		return nil, fmt.Errorf("%s: is not valid YAML%s", name, place)
	}
	var out []Setting
	for _, doc := range file.Docs {
		flat := flatten(nil, "", doc.Body, 0)
		var only []string
		for _, s := range flat {
			if c := Canonical(s.Key); c == "springconfigactivateonprofile" || c == "springprofiles" {
				only = strings.Split(strings.ReplaceAll(s.Value, " ", ""), ",")
			}
		}
		for _, s := range flat {
			if s.Key, s.Profiles = cutProfile(s.Key); s.Profiles == nil {
				s.Profiles = only
			}
			out = append(out, s)
		}
	}
	return out, nil
}

// deepest bounds the nesting of a file.
const deepest = 100

// flatten appends the scalars below a node with their dotted keys.
func flatten(out []Setting, key string, n ast.Node, depth int) []Setting {
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
	case *ast.SequenceNode:
		for i, v := range n.Values {
			out = flatten(out, fmt.Sprintf("%s[%d]", key, i), v, depth+1)
		}
	case *ast.AnchorNode:
		return flatten(out, key, n.Value, depth+1)
	case *ast.TagNode:
		return flatten(out, key, n.Value, depth+1)
	case *ast.NullNode:
		out = append(out, Setting{Key: key, Line: n.GetToken().Position.Line})
	case *ast.LiteralNode:
		out = append(out, Setting{Key: key, Value: strings.TrimSpace(n.Value.Value), Line: n.GetToken().Position.Line})
	case ast.ScalarNode:
		// As it is written: 1_000 and 1e3 are the reader's business.
		t := n.GetToken()
		out = append(out, Setting{Key: key, Value: strings.TrimSpace(t.Value), Line: t.Position.Line})
	}
	return out
}
