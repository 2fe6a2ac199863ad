package operate

import "github.com/outriderhq/outrider/internal/buildinfo"

// Build says what this program was built from.
type Build = buildinfo.Build

// Version returns what this program was built from. In a program that embeds
// Outrider the version is that of the module it requires.
func Version() Build { return buildinfo.Read() }
