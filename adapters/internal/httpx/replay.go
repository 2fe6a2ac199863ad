package httpx

import (
	"errors"
	"io"
	"net/http"
	"sync/atomic"
)

// errReplayed is the error of a request whose second connection was closed without an answer, too.
var errReplayed = errors.New("the connection was closed without an answer, and a second one as well")

// Body sets the body of a request, which the transport may send again once: when the receiver has closed a kept-alive connection. With
// Idempotency-Key the transport would go on like that for as long as it has idle connections, all in one attempt.
func Body(req *http.Request, open func() io.Reader, size int64) {
	var replayed atomic.Bool
	req.ContentLength = size
	req.GetBody = func() (io.ReadCloser, error) {
		if replayed.Swap(true) {
			return nil, errReplayed
		}
		return io.NopCloser(open()), nil
	}
	if req.Body = io.NopCloser(open()); size > 0 {
		return
	}
	// Without a body GetBody is not asked: then nothing is sent again. The transport knows the header in this spelling only.
	req.Body = http.NoBody
	if key, ok := req.Header[HeaderKey]; ok {
		delete(req.Header, HeaderKey)
		req.Header["Idempotency-key"] = key
	}
}
