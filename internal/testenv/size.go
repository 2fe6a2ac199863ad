package testenv

import (
	"flag"
	"os"
	"strconv"
)

// EnvSoak is set by `make soak`: tests then do as much as they can make sense
// of, and in `make test` as much as it takes to find what they look for.
const EnvSoak = "OUTRIDER_SOAK"

// Soaking reports whether this is a run of `make soak`.
func Soaking() bool { return os.Getenv(EnvSoak) != "" }

// EnvFull is set by `make race`: tests then have the sizes that also find what is rare, and in `make test` those that show what each
// test is for.
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

// LimitChecks sets how many cases the property tests of a package try, for
// packages whose cases are expensive. It is for TestMain; -rapid.checks on the
// command line has the last word.
func LimitChecks(usual, soak int) error {
	return flag.Set("rapid.checks", strconv.Itoa(Size(usual, soak)))
}
