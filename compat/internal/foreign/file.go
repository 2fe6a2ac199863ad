package foreign

import (
	"cmp"
	"errors"
	"fmt"
	"maps"
	"slices"
	"strings"

	"github.com/outriderhq/outrider/config"
)

// DefaultProfile is the profile whose keys go before others: what runs in production.
const DefaultProfile = "prod"

// Result is the result of an import.
type Result struct {
	// Config is a configuration file for Outrider. Comments say which key of the source system a value comes from, and which are defaults.
	Config []byte

	// Notes are for the user to read: what could not be taken over, and what is to be done. They begin with the place in the file where
	// there is one.
	Notes []string
}

// File is a file that is being imported.
type File struct {
	Name     string
	Settings map[string]Setting // what applies, by canonical key
	Samples  map[string]string  // a value for each variable that the result names
	Millis   bool               // plain numbers of durations are milliseconds, as Spring has it

	prefix string // begins the canonical keys of the system
	used   map[string]bool
	notes  []string
	errs   []error
}

// NewFile chooses the settings that apply: the last of a key, those of the profile (empty: [DefaultProfile]) before those of none. prefix
// begins the keys of the system that is imported, such as outbox-processor.
func NewFile(name string, all []Setting, prefix, profile string) *File {
	im := &File{Name: name, Settings: map[string]Setting{}, Samples: map[string]string{}, used: map[string]bool{}, prefix: Canonical(prefix)}
	profile = cmp.Or(profile, DefaultProfile)
	others := map[string]bool{}
	for _, pass := range []bool{false, true} { // of the profile?
		for _, s := range all {
			own := slices.Contains(s.Profiles, profile)
			if len(s.Profiles) > 0 && !own {
				if strings.HasPrefix(Canonical(s.Key), im.prefix) {
					for _, other := range s.Profiles {
						others[other] = true
					}
				}
				continue
			}
			if own == pass && (s.Value != "" || !IsEnvironment(name)) {
				im.Settings[Canonical(s.Key)] = s
			}
			im.Millis = im.Millis || strings.HasPrefix(s.Key, "spring.")
		}
	}
	for _, other := range sortedKeys(others) {
		im.Note(Setting{}, "keys of the profile %s are left out; --profile %s takes them", other, other)
	}
	return im
}

// Any reports whether something applies that is the system's.
func (f *File) Any() bool {
	for key := range f.Settings {
		if strings.HasPrefix(key, f.prefix) {
			return true
		}
	}
	return false
}

// Canonical is a key as all of its spellings have it: frameworks take outbox-processor.poll-interval, outboxProcessor.pollInterval and
// OUTBOX_PROCESSOR_POLL_INTERVAL for the same.
func Canonical(key string) string { return strings.ToLower(separators.Replace(key)) }

var separators = strings.NewReplacer(".", "", "-", "", "_", "")

// Use notes that something was made of a key. The name of a key is one after the prefix; those of others are canonical.
func (f *File) Use(canonical string) { f.used[canonical] = true }

// Own returns the system's setting of a key such as poll-interval; false: there is none, or it is empty.
func (f *File) Own(key string) (Setting, bool) {
	canonical := f.prefix + Canonical(key)
	f.Use(canonical)
	s, ok := f.Settings[canonical]
	return s, ok && s.Value != ""
}

// Unused returns the settings whose canonical keys begin with one of the prefixes, or with that of the system, and of which nothing was made, by line.
func (f *File) Unused(prefixes ...string) []Setting {
	var left []Setting
	for key, s := range f.Settings {
		if !f.used[key] && slices.ContainsFunc(append(prefixes, f.prefix), func(p string) bool { return strings.HasPrefix(key, p) }) {
			left = append(left, s)
		}
	}
	slices.SortFunc(left, func(a, b Setting) int { return cmp.Or(a.Line-b.Line, cmp.Compare(a.Key, b.Key)) })
	return left
}

// Result is the configuration, unless something made it impossible. It is read as Outrider will, with something for each variable; what
// is wrong then is a note.
func (f *File) Result(out string) (Result, error) {
	if err := errors.Join(f.errs...); err != nil {
		return Result{}, err
	}
	_, err := config.Parse("the result", []byte(out), func(name string) (string, bool) {
		value, ok := f.Samples[name]
		return value, ok
	})
	if err != nil {
		f.Note(Setting{}, "Outrider will not accept the result as it is:\n%v", err)
	}
	return Result{Config: []byte(out), Notes: f.notes}, nil
}

// Note keeps something for the user to read.
func (f *File) Note(s Setting, format string, args ...any) {
	f.notes = append(f.notes, f.at(s)+fmt.Sprintf(format, args...))
}

// Fail keeps a reason why there can be no result.
func (f *File) Fail(s Setting, format string, args ...any) {
	f.errs = append(f.errs, errors.New(f.at(s)+fmt.Sprintf(format, args...)))
}

func (f *File) at(s Setting) string {
	if s.Line == 0 {
		return f.Name + ": "
	}
	return fmt.Sprintf("%s:%d: ", f.Name, s.Line)
}

func sortedKeys[V any](m map[string]V) []string { return slices.Sorted(maps.Keys(m)) }
