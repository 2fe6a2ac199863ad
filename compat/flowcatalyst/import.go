package flowcatalyst

import (
	"cmp"
	"fmt"

	"github.com/outriderhq/outrider/compat/internal/foreign"
)

// DefaultProfile is the profile whose keys go before others: what runs in
// production.
const DefaultProfile = foreign.DefaultProfile

// Options of [Import].
type Options struct {
	// Profile whose keys (%PROFILE.outbox-processor.*) go before those of none.
	// Default: [DefaultProfile]. Keys of other profiles are left out.
	Profile string
}

// Result is the result of an import.
type Result = foreign.Result

// importer is one import.
type importer struct{ *foreign.File }

// Import reads a file: one of the environment (.env, .env.production, x.env), or one whose name ends with .properties, .yaml
// or .yml. Variables FC_OUTBOX_... become a source with layout flowcatalyst-v2. The error lists everything that makes an
// import impossible.
func Import(name string, text []byte, o Options) (Result, error) {
	all, err := foreign.Read(name, text)
	if err != nil {
		return Result{}, err
	}
	profile := cmp.Or(o.Profile, DefaultProfile)
	im := &importer{foreign.NewFile(name, all, prefix, profile)}
	var out string
	switch {
	case im.isCurrent():
		out = im.current()
	case im.Any():
		out = im.result(profile)
	default:
		return Result{}, fmt.Errorf("%s: has no key of the outbox processor (outbox-processor.enabled, outbox-processor.api-base-url and so on; FC_OUTBOX_... in a .env file) "+
			"that applies with the profile %s; name the application's configuration file, or another --profile", name, profile)
	}
	for _, s := range im.Unused(currentPrefix) {
		im.Note(s, "%s is not a key of the outbox processor; it is left out", s.Key)
	}
	return im.Result(out)
}

// prefix begins the keys of the processor.
const prefix = "outbox-processor."
