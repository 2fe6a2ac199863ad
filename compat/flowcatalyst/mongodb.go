package flowcatalyst

import (
	"strings"

	"github.com/outriderhq/outrider/compat/internal/foreign"
)

// mongoVariable is where the URL of MongoDB comes from when the file has none that can be taken over.
const mongoVariable = "MONGODB_URL"

// mongoState writes where Outrider's state is: MongoDB cannot hold it.
func (im *importer) mongoState(w *foreign.Writer) {
	im.Samples["STATE_URL"] = "postgres://127.0.0.1/state"
	im.Note(foreign.Setting{}, "Outrider keeps its own state (leases, pauses, the record of what operators did) in SQL, not in MongoDB: set STATE_URL to a postgres:// or mysql:// URL, "+
		"or, for one instance, to the path of an SQLite file")
	w.Line("state: {url: \"${STATE_URL}\"} # MongoDB cannot hold it")
}

// mongoSource writes the URL and the database.
func (im *importer) mongoSource(w *foreign.Writer) {
	im.Samples[mongoVariable] = "mongodb://127.0.0.1/app"
	url, from := "${"+mongoVariable+"}", "set it to the mongodb:// URL of the collections"
	for _, key := range []string{"quarkus.mongodb.connection-string", "spring.data.mongodb.uri", "spring.mongodb.uri"} {
		s, ok := im.Settings[foreign.Canonical(key)]
		if !ok || s.Value == "" {
			continue
		}
		text, plain := "", true
		if parts := im.Resolve(s); len(parts) > 0 && parts[0].Name == "" {
			text = im.Join(s, "host")
			plain = !strings.Contains(text, "@")
		}
		switch {
		case !plain:
			im.Note(s, "%s stays where it is, it may hold a secret: set %s to it", s.Key, mongoVariable)
		case strings.HasPrefix(text, "mongodb"):
			url, from = text, key
		default:
			im.Note(s, "%s is a variable: set %s to its value", s.Key, mongoVariable)
		}
		w.Line("    url: %s # %s", foreign.Quoted(url), from)
		w.Text("    database", "mongo-database", "outbox")
		return
	}
	im.Note(foreign.Setting{}, "the file names no MongoDB: set %s to the mongodb:// URL of the collections", mongoVariable)
	w.Line("    url: %s # %s", foreign.Quoted(url), from)
	w.Text("    database", "mongo-database", "outbox")
}
