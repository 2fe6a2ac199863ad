package form

import (
	"crypto/sha256"
	"errors"
	"fmt"
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
func (c *Checker) fromFile(v reflect.Value, at Location) {
	if v.Kind() != reflect.Map {
		c.secretFile(v, at)
		return
	}
	if at.node.bad || !c.expect(at, mappingNode) {
		return
	}
	v.Set(reflect.MakeMap(v.Type()))
	for _, e := range at.node.entries {
		child := at.Child(e.key.text)
		key := reflect.New(v.Type().Key()).Elem()
		value := reflect.New(v.Type().Elem()).Elem()
		if c.mapKey(key, child) {
			c.secretFile(value, child)
			v.SetMapIndex(key, value)
		}
	}
}

// secretFile fills one secret from a file. Nothing of the content is reported.
func (c *Checker) secretFile(v reflect.Value, at Location) {
	text, ok := c.content(at)
	if !ok {
		return
	}
	s, _ := asScalar(v)
	if err := s.Parse(text); err != nil || text == "" {
		c.Add(at, "the file must hold one line, the secret").Fix("write the secret into the file, without anything else")
	}
}

// secretLines fills a list of secrets from the lines of a file.
func (c *Checker) secretLines(v reflect.Value, at Location) {
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
		c.Add(at, "the file holds no secrets").Fix("write one per line")
	}
	v.Set(reflect.ValueOf(list))
}

// content reads the file that a value names, without its final line end.
func (c *Checker) content(at Location) (string, bool) {
	if at.node.bad || !c.expect(at, textNode) {
		return "", false
	}
	path := at.node.text
	if pathLike(path) {
		c.show(at.node)
	}
	data, err := readSmall(path)
	if err != nil {
		e := c.Add(at, "the file cannot be read: %s", cause(err))
		if pathLike(path) {
			e.Fix("check the path and its permissions; a relative path starts at the working directory")
		} else {
			e.Fix("the value is not shown because it does not look like a path; if it is the secret itself, use the key without _file")
		}
		return "", false
	}
	c.WarnReadable(at, path)
	return strings.TrimRight(string(data), "\r\n"), true
}

// maxFile is the largest file that is read, in bytes.
const maxFile = 1 << 20

// Open begins to read a file; see [Declaration.Text].
func (d *Declaration) Open(path string, env func(string) (string, bool)) (*Checker, error) {
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
	c := d.Text(path, string(src), env)
	c.exposed = open(info)
	return c, nil
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

// WarnReadable warns about a file with secrets that every user of the machine can
// read.
func (c *Checker) WarnReadable(at Location, path string) {
	info, err := os.Stat(path)
	if err == nil && open(info) {
		c.Warn(at, "every user of this machine can read the file").
			Fix("chmod 600 for the user that runs Outrider; of a Kubernetes secret: defaultMode: 0400")
	}
}

// open reports whether users other than the owner and the group may read a file.
func open(info fs.FileInfo) bool { return runtime.GOOS != "windows" && info.Mode().Perm()&0o004 != 0 }

// cause leaves the path out of an error: it may have come from a variable.
func cause(err error) string {
	if p, ok := errors.AsType[*fs.PathError](err); ok {
		return p.Err.Error()
	}
	return err.Error()
}

// File is the path of a file. It prints masked unless it looks like one, since
// secrets are pasted into such keys.
type File string

// Parse implements [Scalar].
func (f *File) Parse(text string) error {
	if strings.ContainsAny(text, "\r\n\x00") || strings.HasPrefix(text, "-----BEGIN") {
		return Expected("the path of a file, not its content")
	}
	*f = File(text)
	return nil
}

// Spelling implements [Scalar].
func (*File) Spelling() Spelling { return Spelling{Name: "path", Path: true} }

// String is the path if it looks like one, otherwise a mask.
func (f File) String() string {
	if f != "" && !pathLike(string(f)) {
		return masked
	}
	return string(f)
}

// Contents are what the files of a configuration hold, as hashes by path; that of a file that cannot be read is zero.
type Contents map[File][sha256.Size]byte

// ContentsOf reads the files whose paths a configuration has, a pointer to a struct.
func ContentsOf(cfg any) Contents {
	c := Contents{}
	c.read(reflect.ValueOf(cfg).Elem())
	return c
}

// Differ reports whether a file of both has other contents.
func (c Contents) Differ(other Contents) bool {
	for path, sum := range c {
		if was, known := other[path]; known && was != sum {
			return true
		}
	}
	return false
}

func (c Contents) read(v reflect.Value) {
	switch v.Kind() {
	case reflect.Pointer, reflect.Interface:
		if !v.IsNil() {
			c.read(v.Elem())
		}
	case reflect.Struct:
		for i := range v.NumField() {
			if v.Type().Field(i).IsExported() {
				c.read(v.Field(i))
			}
		}
	case reflect.Map:
		for _, key := range v.MapKeys() {
			c.read(v.MapIndex(key))
		}
	case reflect.Slice:
		for i := range v.Len() {
			c.read(v.Index(i))
		}
	default:
		if path, ok := reflect.TypeAssert[File](v); ok && path != "" {
			var sum [sha256.Size]byte
			if data, err := readSmall(string(path)); err == nil {
				sum = sha256.Sum256(data)
			}
			c[path] = sum
		}
	}
}
