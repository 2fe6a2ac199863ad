package flowcatalyst

import (
	"cmp"
	"errors"
	"fmt"
	"slices"
	"strings"

	"github.com/outriderhq/outrider/config"
)

// DefaultProfile is the profile whose keys go before others: what runs in
// production.
const DefaultProfile = "prod"

// Options of [Import].
type Options struct {
	// Profile whose keys (%PROFILE.outbox-processor.*) go before those of none.
	// Default: [DefaultProfile]. Keys of other profiles are left out.
	Profile string
}

// Result is what an import made.
type Result struct {
	// Config is a configuration file for Outrider. Comments say which of
	// FlowCatalyst's keys a value comes from, and which are defaults.
	Config []byte

	// Notes are for the user to read: what could not be taken over, and what is
	// to be done. They begin with the place in the file where there is one.
	Notes []string
}

// importer is one import.
type importer struct {
	name     string
	settings map[string]setting // what applies, by canonical key
	used     map[string]bool
	notes    []string
	errs     []error
	samples  map[string]string // a value for each variable that the result names
	millis   bool              // plain numbers of durations are milliseconds, as Spring has it
}

// Import reads a file: one of the environment (.env, .env.production, x.env), or one whose name ends with .properties, .yaml
// or .yml. Variables FC_OUTBOX_... become a source with layout flowcatalyst-v2. The error lists everything that makes an
// import impossible.
func Import(name string, text []byte, o Options) (Result, error) {
	all, err := read(name, text)
	if err != nil {
		return Result{}, err
	}
	im := &importer{name: name, settings: map[string]setting{}, used: map[string]bool{}, samples: map[string]string{}}
	profile := cmp.Or(o.Profile, DefaultProfile)
	im.choose(all, profile)
	var out string
	switch {
	case im.isCurrent():
		out = im.current()
	case im.any():
		out = im.result(profile)
	default:
		return Result{}, fmt.Errorf("%s: has no key of the outbox processor (outbox-processor.enabled, outbox-processor.api-base-url and so on; FC_OUTBOX_... in a .env file) "+
			"that applies with the profile %s; name the application's configuration file, or another --profile", name, profile)
	}
	im.unknown()
	if err := errors.Join(im.errs...); err != nil {
		return Result{}, err
	}
	im.verify(out)
	return Result{Config: []byte(out), Notes: im.notes}, nil
}

// choose keeps the settings that apply: the last of a key, those of the profile
// before those of none.
func (im *importer) choose(all []setting, profile string) {
	others := map[string]bool{}
	for _, pass := range []bool{false, true} { // of the profile?
		for _, s := range all {
			own := slices.Contains(s.profiles, profile)
			if len(s.profiles) > 0 && !own {
				if strings.HasPrefix(canonical(s.key), prefix) {
					for _, other := range s.profiles {
						others[other] = true
					}
				}
				continue
			}
			if own == pass && (s.value != "" || !isEnvironment(im.name)) {
				im.settings[canonical(s.key)] = s
			}
			im.millis = im.millis || strings.HasPrefix(s.key, "spring.")
		}
	}
	for _, other := range sortedKeys(others) {
		im.note(setting{}, "keys of the profile %s are left out; --profile %s takes them", other, other)
	}
}

// any reports whether something applies that is the processor's.
func (im *importer) any() bool {
	for key := range im.settings {
		if strings.HasPrefix(key, prefix) {
			return true
		}
	}
	return false
}

// prefix begins the canonical keys of the processor.
const prefix = "outboxprocessor"

// canonical is a key as all of its spellings have it: frameworks take
// outbox-processor.poll-interval, outboxProcessor.pollInterval and
// OUTBOX_PROCESSOR_POLL_INTERVAL for the same.
func canonical(key string) string { return strings.ToLower(separators.Replace(key)) }

var separators = strings.NewReplacer(".", "", "-", "", "_", "")

// own returns the processor's setting of a key such as poll-interval.
func (im *importer) own(key string) (setting, bool) {
	im.used[prefix+canonical(key)] = true
	s, ok := im.settings[prefix+canonical(key)]
	return s, ok && s.value != ""
}

// unknown notes the keys of the processor that nothing was made of.
func (im *importer) unknown() {
	var left []setting
	for key, s := range im.settings {
		if (strings.HasPrefix(key, prefix) || strings.HasPrefix(key, currentPrefix)) && !im.used[key] {
			left = append(left, s)
		}
	}
	slices.SortFunc(left, func(a, b setting) int { return cmp.Or(a.line-b.line, cmp.Compare(a.key, b.key)) })
	for _, s := range left {
		im.note(s, "%s is not a key of the outbox processor; it is left out", s.key)
	}
}

// verify reads the result as Outrider will, with something for each variable.
func (im *importer) verify(out string) {
	_, err := config.Parse("the result", []byte(out), func(name string) (string, bool) {
		value, ok := im.samples[name]
		return value, ok
	})
	if err != nil {
		im.note(setting{}, "Outrider will not accept the result as it is:\n%v", err)
	}
}

// note keeps something for the user to read.
func (im *importer) note(s setting, format string, args ...any) {
	im.notes = append(im.notes, im.at(s)+fmt.Sprintf(format, args...))
}

// fail keeps a reason why there can be no result.
func (im *importer) fail(s setting, format string, args ...any) {
	im.errs = append(im.errs, errors.New(im.at(s)+fmt.Sprintf(format, args...)))
}

func (im *importer) at(s setting) string {
	if s.line == 0 {
		return im.name + ": "
	}
	return fmt.Sprintf("%s:%d: ", im.name, s.line)
}
