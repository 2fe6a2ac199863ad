package http

import (
	"bytes"
	"context"
	"io"
	"net/http"

	wmhttp "github.com/ThreeDotsLabs/watermill-http/v2/pkg/http"
	"github.com/ThreeDotsLabs/watermill/message"
)

// Headers of a message as watermill-http writes and reads them; the body is the
// payload.
const (
	HeaderWatermillUUID     = wmhttp.HeaderUUID     // of the message
	HeaderWatermillMetadata = wmhttp.HeaderMetadata // a JSON object of strings
)

// newStock returns watermill-http's Publisher on the destination's client: it makes and
// sends the requests of format watermill. The destination judges the answers, because the
// Publisher knows one kind of error, and takes a redirect for a success.
func newStock(client *http.Client) (*wmhttp.Publisher, error) {
	own := *client
	own.Transport = keeper{client.Transport}
	return wmhttp.NewPublisher(wmhttp.PublisherConfig{
		Client: &own, DoNotLogResponseBodyOnServerError: true,
		MarshalMessageFunc: func(_ string, msg *message.Message) (*http.Request, error) { return exchangeOf(msg.Context()).req, nil },
	}, nil)
}

// exchange is a request of the Publisher and its answer; it is the value of their context.
type exchange struct {
	req  *http.Request
	resp *http.Response // nil: there was none
}

type exchangeKey struct{}

func exchangeOf(ctx context.Context) *exchange {
	x, _ := ctx.Value(exchangeKey{}).(*exchange)
	return x
}

// keeper keeps answers for the destination. The Publisher gets them without their bodies, which it would close unread:
// the connection could then not be used again.
type keeper struct{ http.RoundTripper }

// RoundTrip implements [http.RoundTripper].
func (k keeper) RoundTrip(req *http.Request) (*http.Response, error) {
	resp, err := k.RoundTripper.RoundTrip(req)
	if err != nil {
		return nil, err
	}
	exchangeOf(req.Context()).resp = resp
	bare := *resp
	bare.Body = http.NoBody
	return &bare, nil
}

// newRequest returns a request with everything but its body; in format watermill it is made by watermill-http's marshaler.
func (d *Destination) newRequest(ctx context.Context, address string, batch []item) (*http.Request, error) {
	url := d.target.Full(address)
	if d.stock == nil {
		return http.NewRequestWithContext(ctx, http.MethodPost, url, http.NoBody)
	}
	req, err := wmhttp.DefaultMarshalMessageFunc(url, payloadOnly(batch[0]))
	if err != nil {
		return nil, err
	}
	// JSON leaves DEL as it is, and a header must not have it.
	metadata := bytes.ReplaceAll([]byte(req.Header.Get(HeaderWatermillMetadata)), []byte{0x7f}, []byte(`\u007f`))
	req.Header.Set(HeaderWatermillMetadata, string(metadata))
	return req.WithContext(ctx), nil
}

// payloadOnly returns the message as it travels.
func payloadOnly(it item) *message.Message {
	msg := message.NewMessage(it.msg.UUID, it.body)
	msg.Metadata = it.msg.Metadata
	return msg
}

// do sends a request; in format watermill watermill-http's Publisher does.
func (d *Destination) do(req *http.Request, batch []item) (*http.Response, error) {
	if d.stock == nil {
		return d.client.Do(req)
	}
	x := &exchange{}
	x.req = req.WithContext(context.WithValue(req.Context(), exchangeKey{}, x))
	msg := payloadOnly(batch[0])
	msg.SetContext(x.req.Context())
	if err := d.stock.Publish(req.URL.String(), msg); x.resp == nil {
		return nil, err
	}
	return x.resp, nil
}

// body is the content of a request and its size.
func (d *Destination) body(batch []item) (open func() io.Reader, size int64) {
	if d.stock != nil {
		payload := batch[0].body
		return func() io.Reader { return bytes.NewReader(payload) }, int64(len(payload))
	}
	if d.cfg.Items {
		return func() io.Reader { return newArray(batch, itemsBegin, itemsEnd) }, arraySize(batch, itemsBegin, itemsEnd)
	}
	return func() io.Reader { return newArray(batch, arrayBegin, arrayEnd) }, arraySize(batch, arrayBegin, arrayEnd)
}
