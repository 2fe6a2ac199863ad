package http

import (
	"encoding/json"
	"errors"
	"fmt"

	"github.com/outriderhq/outrider/outbox"
)

// Codes of failures, as FlowCatalyst's platform writes them for items; answers without results
// are given the code that its own programs give them.
const (
	codeBadRequest   = "BAD_REQUEST"
	codeInternal     = "INTERNAL_ERROR"
	codeUnauthorized = "UNAUTHORIZED"
	codeForbidden    = "FORBIDDEN"
	codeGateway      = "GATEWAY_ERROR"
)

// maxResults is how much of an answer with results is read.
const maxResults = 8 << 20

// codeOf is the code of an answer's status.
func codeOf(status int) string {
	switch status {
	case 400:
		return codeBadRequest
	case 401:
		return codeUnauthorized
	case 403:
		return codeForbidden
	case 502, 503, 504:
		return codeGateway
	}
	return codeInternal
}

// coded gives an error its code, and says that the receiver answered: an attempt counts for all then.
func coded(err error, code string, answered bool) error {
	if e, ok := errors.AsType[*outbox.Error](err); ok {
		e.Code, e.Answered = code, answered
	}
	return err
}

// results reads the result of each item of a request from the answer: {"results": [{"status": "SUCCESS", "error":
// "..."}]}, one for each, in their order. The ids in it are the platform's. An answer of another form says nothing
// of any item, so all are attempted again.
func (d *Destination) results(address string, answer []byte, batch []item) ([]error, error) {
	var body struct {
		Results []struct {
			Status string `json:"status"`
			Error  string `json:"error"`
		} `json:"results"`
	}
	err := json.Unmarshal(answer, &body)
	switch {
	case err != nil || body.Results == nil:
		return nil, d.noResults(address, `is not of the form {"results": [...]}: `+d.outcome.Answer(answer, maxQuote, payloads(batch)...))
	case len(body.Results) != len(batch):
		return nil, d.noResults(address, fmt.Sprintf("has %d results for %d items", len(body.Results), len(batch)))
	}
	var errs []error
	for i, r := range body.Results {
		if r.Status == "SUCCESS" || r.Status == "SKIPPED" { // not stored on purpose: another attempt would end so, too
			continue
		}
		if errs == nil {
			errs = make([]error, len(batch))
		}
		errs[i] = d.refusedItem(address, r.Status, r.Error, batch[i:i+1])
	}
	return errs, nil
}

// refusedItem is the error of one item.
func (d *Destination) refusedItem(address, status, text string, of []item) error {
	reason := fmt.Errorf("http: %s answers %s for the item: %s", address, d.outcome.Answer([]byte(status), maxQuote, payloads(of)...),
		d.outcome.Answer([]byte(text), maxQuote, payloads(of)...))
	switch status {
	case codeBadRequest, codeForbidden:
		return coded(outbox.Permanent(reason), status, true)
	case codeInternal, codeUnauthorized, codeGateway:
		return coded(outbox.Transient(reason, 0), status, true)
	}
	return coded(outbox.Transient(reason, 0), codeInternal, true)
}

func (d *Destination) noResults(address, what string) error {
	return coded(outbox.Transient(fmt.Errorf("http: the answer of %s %s", address, what), 0), codeInternal, true)
}
