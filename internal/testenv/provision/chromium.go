package provision

import (
	"context"
	"errors"
	"fmt"
	"os"
	"os/exec"
)

// EnvChromium names the Chromium program and overrides the search for it.
const EnvChromium = "OUTRIDER_CHROMIUM"

// chromiumSize is a download in round numbers.
const chromiumSize = "about 100 MB"

// chromiumPackages are Debian's: the browser without its windows, which needs less than half of the processor time, and letters for
// it to draw.
var chromiumPackages = []string{"chromium-headless-shell", "fonts-dejavu-core"}

// Chromium returns the program of a browser that tests drive without a screen.
func (h Host) Chromium(ctx context.Context) (string, error) {
	if path, ok := findChromium(); ok {
		return path, nil
	}
	if h.Install {
		done, err := h.apt(ctx, chromiumPackages...)
		if err != nil {
			return "", err
		}
		if path, ok := findChromium(); done && ok {
			return path, nil
		}
	}
	return "", errNoChromium
}

var errNoChromium = errors.New("no Chromium found: install it (`make test` does, with apt as root), or set " + EnvChromium + " to its program")

// findChromium looks for the program.
func findChromium() (string, bool) {
	if path := os.Getenv(EnvChromium); path != "" {
		return path, true
	}
	for _, name := range []string{"chromium-headless-shell", "chromium", "chromium-browser", "google-chrome-stable", "google-chrome"} {
		if path, err := exec.LookPath(name); err == nil {
			return path, true
		}
	}
	return "", false
}

// MissingChromium is [Host.MissingPostgres] for [Host.Chromium].
func (h Host) MissingChromium(context.Context) []string {
	if _, ok := findChromium(); ok || !hasApt() {
		return nil
	}
	return []string{fmt.Sprintf("Chromium: packages %v, with apt, %s", chromiumPackages, chromiumSize)}
}
