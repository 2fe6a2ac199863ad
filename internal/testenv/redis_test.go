package testenv_test

import (
	"net"
	"testing"
	"time"

	"github.com/outriderhq/outrider/internal/testenv"
)

func TestAPrivateRedisIsKilledFrozenAndStartedAgain(t *testing.T) {
	t.Parallel()
	r := testenv.StartRedis(t, "maxmemory 50mb")
	r.Freeze()
	conn, err := net.Dial("tcp", r.Address())
	if err != nil {
		t.Fatal(err)
	}
	defer func() { _ = conn.Close() }()
	r.Thaw()
	_ = conn.SetDeadline(time.Now().Add(time.Minute))
	if _, err := conn.Write([]byte("PING\r\n")); err != nil {
		t.Fatal(err)
	}
	if n, err := conn.Read(make([]byte, 16)); n == 0 || err != nil {
		t.Fatal(err)
	}
	r.Kill()
	if _, err := net.Dial("tcp", r.Address()); err == nil {
		t.Fatal("a killed server takes connections")
	}
	r.Start()
}
