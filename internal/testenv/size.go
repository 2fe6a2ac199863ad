package testenv

import (
	"flag"
	"os"
	"strconv"
)

// EnvSoak is set by `make soak`: tests then have their largest sizes, and in `make
// test` sizes that are large enough to fail.
const EnvSoak = "OUTRIDER_SOAK"

// Soaking reports whether this is a run of `make soak`.
func Soaking() bool { return os.Getenv(EnvSoak) != "" }

// EnvFull is set by `make race`: tests then have sizes that also find rare errors, and in `make test` smaller ones that show the
// purpose of each test.
const EnvFull = "OUTRIDER_TEST_FULL"

// Full reports whether tests have the sizes of [EnvFull], or more.
func Full() bool { return os.Getenv(EnvFull) != "" || Soaking() }

// Brief is how large a test is: in `make test`, and with [EnvFull] or in a soak.
func Brief(brief, full int) int {
	if Full() {
		return full
	}
	return brief
}

// Size is how large a test is: usually, and in a soak.
func Size(usual, soak int) int {
	if Soaking() {
		return soak
	}
	return usual
}

// LimitChecks sets the number of cases of the property tests of a package, for
// packages whose cases are expensive. TestMain calls it; -rapid.checks on the command
// line overrides it.
func LimitChecks(usual, soak int) error {
	return flag.Set("rapid.checks", strconv.Itoa(Size(usual, soak)))
}
