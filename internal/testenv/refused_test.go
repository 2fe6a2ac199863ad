package testenv_test

import (
	"errors"
	"net"
	"syscall"
	"testing"

	"github.com/outriderhq/outrider/internal/testenv"
)

func TestRefusedIsNobodysAddressUntilTheTestEnds(t *testing.T) {
	t.Parallel()
	at := testenv.Refused(t)
	if c, err := new(net.Dialer).DialContext(t.Context(), "tcp", at); !errors.Is(err, syscall.ECONNREFUSED) {
		t.Errorf("connecting: %v, %v; want it refused", c, err)
	}
	if l, err := new(net.ListenConfig).Listen(t.Context(), "tcp", at); !errors.Is(err, syscall.EADDRINUSE) {
		t.Errorf("listening: %v, %v; want the port in use", l, err)
	}
}
