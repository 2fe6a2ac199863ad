package server

import (
	"bufio"
	"fmt"
	"net"
	"net/http"
	"strings"
	"testing"
	"time"
)

// Whoever holds all connections, idle, with half a request or with requests that last, keeps no probe out.
func TestProbesHaveRoom(t *testing.T) {
	t.Parallel()
	for name, request := range map[string]string{
		"idle": "", "after a request": "GET /livez HTTP/1.1\r\nHost: localhost\r\n\r\n", "half a header": "GET /x HT",
		"requests that last": "GET /wait HTTP/1.1\r\nHost: localhost\r\n\r\n",
	} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			lim := defaultLimits
			lim.connections, lim.probes = 8, 2
			lim.idle, lim.header, lim.read = time.Hour, time.Hour, time.Hour
			release := make(chan struct{})
			mux := http.NewServeMux()
			mux.HandleFunc("/livez", func(w http.ResponseWriter, _ *http.Request) { text(w, http.StatusOK, "ok") })
			mux.HandleFunc("/wait", func(_ http.ResponseWriter, r *http.Request) {
				select {
				case <-release:
				case <-r.Context().Done():
				}
			})
			s := start(t, settings(), lim, mux)
			defer close(release)
			for range 4 * lim.connections {
				conn, err := new(net.Dialer).DialContext(t.Context(), "tcp", s.Addr())
				if err != nil {
					t.Fatal(err)
				}
				t.Cleanup(func() { _ = conn.Close() })
				if _, err := fmt.Fprint(conn, request); err != nil {
					t.Fatal(err)
				}
				if strings.Contains(request, "livez") { // so that the next one finds it idle
					if _, err := bufio.NewReader(conn).ReadString('\n'); err != nil {
						t.Fatal(err)
					}
				}
			}
			for range 5 {
				if resp := ask(t, s, http.MethodGet, "/livez", nil); resp.StatusCode != http.StatusOK {
					t.Fatalf("a probe: %s", resp.Status)
				}
			}
		})
	}
}
