package server

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"net"
	"strconv"
)

// Ports are below the range that systems use for outgoing connections: between a kill
// and a restart of a server, the system is unlikely to give its port away.
const (
	lowestPort  = 20000
	highestPort = 32000
)

// loopback is the only address that servers listen on.
const loopback = "127.0.0.1"

// FreePorts returns n different loopback ports on which nothing listens.
func FreePorts(ctx context.Context, n int) (ports []int, err error) {
	// Held until all are found, so that none is found twice.
	var held []net.Listener
	defer func() {
		for _, l := range held {
			err = errors.Join(err, l.Close())
		}
	}()
	for range 100 {
		port := lowestPort + rand.IntN(highestPort-lowestPort)
		l, err := new(net.ListenConfig).Listen(ctx, "tcp", address(port))
		if err != nil {
			continue
		}
		held, ports = append(held, l), append(ports, port)
		if len(ports) == n {
			return ports, nil
		}
	}
	return nil, fmt.Errorf("only %d of %d free loopback ports found in 100 tries", len(ports), n)
}

// address returns the loopback address of a port.
func address(port int) string { return net.JoinHostPort(loopback, strconv.Itoa(port)) }
