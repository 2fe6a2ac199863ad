package server

import (
	"errors"
	"os"

	"github.com/magiconair/properties"
)

// writeProperties writes a file that Java reads, for our own user only.
func writeProperties(file string, values map[string]string) error {
	// Of what "${" means, Kafka decides.
	p, err := (&properties.Loader{DisableExpansion: true}).LoadBytes(nil)
	if err != nil {
		return err
	}
	for key, value := range values {
		if _, _, err := p.Set(key, value); err != nil {
			return err
		}
	}
	p.Sort()
	f, err := os.OpenFile(file, os.O_CREATE|os.O_WRONLY|os.O_TRUNC, 0o600)
	if err != nil {
		return err
	}
	_, err = p.Write(f, properties.ISO_8859_1) // the encoding of such files: the rest is escaped
	return errors.Join(err, f.Close())
}
