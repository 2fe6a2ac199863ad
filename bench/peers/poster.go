package peers

import (
	"bytes"
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"time"
)

// pollPause is the pause of a floor after a read without rows.
const pollPause = 10 * time.Millisecond

// pause waits for [pollPause], or until ctx ends.
func pause(ctx context.Context) {
	timer := time.NewTimer(pollPause)
	defer timer.Stop()
	select {
	case <-timer.C:
	case <-ctx.Done():
	}
}

// poster makes the requests of the floors: by the transport alone, without
// redirects, cookies and timeouts.
type poster struct{ transport *http.Transport }

// newPoster returns a poster that keeps so many connections.
func newPoster(connections int) *poster {
	return &poster{&http.Transport{MaxIdleConnsPerHost: connections, DisableCompression: true}}
}

func (p *poster) close() { p.transport.CloseIdleConnections() }

// post sends a body. Any answer but 200 is an error.
func (p *poster) post(ctx context.Context, address string, header http.Header, body []byte) error {
	to, err := url.Parse(address)
	if err != nil {
		return err
	}
	req := (&http.Request{Method: http.MethodPost, URL: to, Header: header, ContentLength: int64(len(body)),
		Body: io.NopCloser(bytes.NewReader(body)), Proto: "HTTP/1.1", ProtoMajor: 1, ProtoMinor: 1}).WithContext(ctx)
	resp, err := p.transport.RoundTrip(req)
	if err != nil {
		return err
	}
	_, err = io.Copy(io.Discard, resp.Body)
	_ = resp.Body.Close() // it has been read
	if err == nil && resp.StatusCode != http.StatusOK {
		err = fmt.Errorf("%s answers %s", address, resp.Status)
	}
	return err
}
