package faults_test

import (
	"errors"
	"flag"
	"fmt"
	"os"
	"runtime"
	"strconv"
	"testing"

	"github.com/Shopify/toxiproxy/v2/toxics"
	"github.com/rs/zerolog"
	"go.uber.org/goleak"

	"github.com/outriderhq/outrider/internal/testenv/natsserver"
)

func TestMain(m *testing.M) {
	natsserver.Main() // instead of the tests, in a process that is a server
	flag.Parse()
	given := false
	flag.Visit(func(f *flag.Flag) { given = given || f.Name == "test.parallel" })
	if !given { // these tests wait most of the time, for processes and for outages
		_ = flag.Set("test.parallel", strconv.Itoa(2*runtime.GOMAXPROCS(0))) // it is a number
	}
	toxics.Register("silence", new(silence))
	zerolog.SetGlobalLevel(zerolog.Disabled) // toxiproxy's own log of every fault
	status := m.Run()
	if err := errors.Join(built.remove(), former.remove(), previous.remove(), anchorless.remove()); err != nil && status == 0 {
		fmt.Fprintln(os.Stderr, err)
		status = 1
	}
	// A connection that breaks while toxiproxy changes what it suffers from
	// leaves goroutines of toxiproxy's behind.
	const link = "github.com/Shopify/toxiproxy/v2.(*ToxicLink)."
	if err := goleak.Find(goleak.IgnoreAnyFunction("github.com/Shopify/toxiproxy/v2/toxics.(*ToxicStub).Run"),
		goleak.IgnoreAnyFunction(link+"read"), goleak.IgnoreAnyFunction(link+"write")); err != nil && status == 0 {
		fmt.Fprintln(os.Stderr, "goroutines are left:", err)
		status = 1
	}
	os.Exit(status)
}
