package http

import (
	"bytes"
	"encoding/json"
	"io"
	"net/http"

	"github.com/ThreeDotsLabs/watermill/message"
)

// Headers of a message as watermill-http writes and reads them; the body is the
// payload.
const (
	HeaderWatermillUUID     = "Message-Uuid"     // of the message
	HeaderWatermillMetadata = "Message-Metadata" // a JSON object of strings
)

// setWatermill sets the headers of a message in format watermill. Metadata that no
// header can hold is left to the client, which refuses the request.
func setWatermill(h http.Header, msg *message.Message) {
	h.Set(HeaderWatermillUUID, msg.UUID)
	metadata, _ := json.Marshal(msg.Metadata) // a map of strings always can be
	// JSON leaves DEL as it is, and a header must not have it.
	h.Set(HeaderWatermillMetadata, string(bytes.ReplaceAll(metadata, []byte{0x7f}, []byte(`\u007f`))))
}

// body is the content of a request and its size.
func (d *Destination) body(batch []item) (open func() io.Reader, size int64) {
	if d.single {
		payload := batch[0].body
		return func() io.Reader { return bytes.NewReader(payload) }, int64(len(payload))
	}
	if d.cfg.Items {
		return func() io.Reader { return newArray(batch, itemsBegin, itemsEnd) }, arraySize(batch, itemsBegin, itemsEnd)
	}
	return func() io.Reader { return newArray(batch, arrayBegin, arrayEnd) }, arraySize(batch, arrayBegin, arrayEnd)
}
