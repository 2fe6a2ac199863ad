package config

import (
	"errors"
	"io"
	"io/fs"
	"os"
	"path/filepath"
	"reflect"
	"regexp"
	"runtime"
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
	path := at.node.text
	if pathLike(path) {
		c.show(at.node)
	}
	data, err := readSmall(path)
	if err != nil {
		e := c.add(at, "the file cannot be read: %s", cause(err))
		if pathLike(path) {
			e.hint("check the path and its permissions; a relative path starts at the working directory")
		} else {
			e.hint("the value is not shown because it does not look like a path; if it is the secret itself, use the key without _file")
		}
		return "", false
	}
	c.readable(at, path)
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

// fileName is a path with an extension that such files have.
var fileName = regexp.MustCompile(`^[A-Za-z0-9._/-]{1,200}\.(pem|crt|cer|key|txt|secret|token|json|yaml|yml|conf|env)$`)

// pathLike reports whether a text may be shown as a path: there is such a file,
// or it begins with a directory that exists, or ends as the names of such files
// do. A secret that was pasted into a key for a path does none of that, not even
// one in base64, which may hold slashes.
func pathLike(text string) bool {
	if text == "" || len(text) > 4096 {
		return false
	}
	if fileName.MatchString(text) {
		return true
	}
	if _, err := os.Stat(text); err == nil {
		return true
	}
	clean := filepath.ToSlash(filepath.Clean(text))
	first, _, below := strings.Cut(strings.TrimPrefix(clean, "/"), "/")
	if strings.HasPrefix(clean, "/") {
		first = "/" + first
	}
	info, err := os.Stat(filepath.FromSlash(first))
	return below && err == nil && info.IsDir()
}

// readable warns about a file with secrets that every user of the machine can
// read.
func (c *checker) readable(at place, path string) {
	info, err := os.Stat(path) //nolint:gosec // the operator's own file, and only its mode is looked at
	if err == nil && open(info) {
		c.warn(at, "every user of this machine can read the file").
			hint("chmod 600 for the user that runs Outrider; of a Kubernetes secret: defaultMode: 0400")
	}
}

// open reports whether users beside the owner and the group may read a file.
func open(info fs.FileInfo) bool { return runtime.GOOS != "windows" && info.Mode().Perm()&0o004 != 0 }

// cause leaves the path out of an error: it may have come from a variable.
func cause(err error) string {
	if p, ok := errors.AsType[*fs.PathError](err); ok {
		return p.Err.Error()
	}
	return err.Error()
}
