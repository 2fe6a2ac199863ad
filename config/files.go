package config

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"reflect"
	"strings"
)

// fromFile fills a secret, or a map of secrets, from the files that are named.
func (c *checker) fromFile(v reflect.Value, at place) {
	if v.Kind() != reflect.Map {
		c.secretFile(v, at)
		return
	}
	if at.node.bad || !c.expect(at, mappingNode) {
		return
	}
	v.Set(reflect.MakeMap(v.Type()))
	for _, e := range at.node.entries {
		child := at.child(e.key.text)
		key := reflect.New(v.Type().Key()).Elem()
		value := reflect.New(v.Type().Elem()).Elem()
		if c.mapKey(key, child) {
			c.secretFile(value, child)
			v.SetMapIndex(key, value)
		}
	}
}

// secretFile fills one secret from a file. Nothing of the content is reported.
func (c *checker) secretFile(v reflect.Value, at place) {
	text, ok := c.content(at)
	if !ok {
		return
	}
	s, _ := asScalar(v)
	if err := s.parse(text); err != nil || text == "" {
		c.add(at, "the file must hold one line, the secret").hint("write the secret into the file, without anything else")
	}
}

// secretLines fills a list of secrets from the lines of a file.
func (c *checker) secretLines(v reflect.Value, at place) {
	text, ok := c.content(at)
	if !ok {
		return
	}
	var list []Secret
	for line := range strings.Lines(text) {
		if line = strings.TrimSpace(line); line != "" && !strings.HasPrefix(line, "#") {
			list = append(list, NewSecret(line))
		}
	}
	if len(list) == 0 {
		c.add(at, "the file holds no secrets").hint("write one per line")
	}
	v.Set(reflect.ValueOf(list))
}

// content reads the file that a value names, without its final line end.
func (c *checker) content(at place) (string, bool) {
	if at.node.bad || !c.expect(at, textNode) {
		return "", false
	}
	c.show(at.node)
	data, err := readSmall(at.node.text)
	if err != nil {
		c.add(at, "the file cannot be read: %s", cause(err)).
			hint("check the path and its permissions; a relative path starts at the working directory")
		return "", false
	}
	return strings.TrimRight(string(data), "\r\n"), true
}

func readSmall(path string) ([]byte, error) {
	info, err := os.Stat(path)
	switch {
	case err != nil:
		return nil, err
	case info.IsDir():
		return nil, errors.New("it is a directory")
	case !info.Mode().IsRegular() && info.Mode().Type() != fs.ModeNamedPipe:
		return nil, errors.New("it is not a regular file")
	}
	f, err := os.Open(path)
	if err != nil {
		return nil, err
	}
	defer func() { _ = f.Close() }()
	return io.ReadAll(io.LimitReader(f, maxFile))
}

// cause leaves the path out of an error: it may have come from a variable.
func cause(err error) string {
	if p, ok := errors.AsType[*fs.PathError](err); ok {
		return p.Err.Error()
	}
	return err.Error()
}
