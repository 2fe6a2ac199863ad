package http

import (
	"context"
	"crypto/sha256"
	"crypto/subtle"
	"errors"
	"fmt"
	"net"
	"net/http"
	"strings"
	"time"

	wmhttp "github.com/ThreeDotsLabs/watermill-http/v2/pkg/http"
	"github.com/ThreeDotsLabs/watermill/message"
)

// ServeHTTP takes one message and answers with its verdict.
func (s *Subscriber) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	if status, text := s.refusal(r); status != 0 {
		if status == http.StatusUnauthorized {
			w.Header().Set("WWW-Authenticate", "Bearer")
		}
		http.Error(w, text, status)
		return
	}
	select {
	case s.slots <- struct{}{}:
		defer func() { <-s.slots }()
	default:
		again(w, "as many messages as the source takes at a time have no verdict yet")
		return
	}
	sub := s.sender(r.URL.Path)
	if sub == nil {
		http.Error(w, "no route takes messages at this path", http.StatusNotFound)
		return
	}
	msg, status, err := s.read(w, r)
	if err != nil {
		sub.senders.Done()
		http.Error(w, err.Error(), status)
		return
	}
	ctx, cancel := context.WithCancel(sub.ctx) // not the request's: a caller that leaves cuts no delivery short
	defer cancel()
	msg.SetContext(ctx)
	sent := false
	select {
	case sub.out <- msg:
		sent = true
	case <-sub.ctx.Done():
	case <-s.closing:
	case <-r.Context().Done():
	}
	sub.senders.Done()
	if !sent {
		again(w, "the route does not take messages at the moment")
		return
	}
	select {
	case <-msg.Acked():
		w.WriteHeader(http.StatusOK)
	case <-msg.Nacked():
		again(w, "the message was not delivered")
	case <-s.closing:
		again(w, "the relay ended before the message was delivered")
	}
}

// again asks the caller to send its message again.
func again(w http.ResponseWriter, why string) {
	w.Header().Set("Retry-After", retryAfter)
	http.Error(w, why, http.StatusServiceUnavailable)
}

// sender is the subscription of a path, which has to be told when nothing is sent to
// it any more; nil: there is none.
func (s *Subscriber) sender(path string) *subscription {
	s.mu.Lock()
	defer s.mu.Unlock()
	sub := s.subs[path]
	if sub != nil {
		sub.senders.Add(1)
	}
	return sub
}

// refusal is why a request is not read; 0: it is.
func (s *Subscriber) refusal(r *http.Request) (status int, text string) {
	switch {
	case len(s.cfg.Tokens) == 0 && !plainHost(r.Host):
		// A page of another site could have sent it, by a name that leads here.
		return http.StatusMisdirectedRequest, "address the request to localhost or an IP address: the source has no token"
	case len(s.cfg.Tokens) > 0 && !s.known(r):
		return http.StatusUnauthorized, "a bearer token of the source is needed"
	case r.Method != http.MethodPost:
		return http.StatusMethodNotAllowed, "send messages with POST"
	}
	return 0, ""
}

func plainHost(host string) bool {
	if name, _, err := net.SplitHostPort(host); err == nil {
		host = name
	}
	return strings.EqualFold(host, "localhost") || net.ParseIP(strings.Trim(host, "[]")) != nil
}

// known reports whether the request has one of the tokens. It takes as long whichever
// it is.
func (s *Subscriber) known(r *http.Request) bool {
	given, ok := strings.CutPrefix(r.Header.Get("Authorization"), "Bearer ")
	sum, found := sha256.Sum256([]byte(given)), 0
	for _, token := range s.cfg.Tokens {
		want := sha256.Sum256([]byte(token))
		found |= subtle.ConstantTimeCompare(sum[:], want[:])
	}
	return ok && found == 1
}

// read reads a message as watermill-http does, or says what is wrong with it and by which status.
func (s *Subscriber) read(w http.ResponseWriter, r *http.Request) (*message.Message, int, error) {
	if r.Header.Get(HeaderWatermillUUID) == "" {
		return nil, http.StatusBadRequest, errors.New("the header " + HeaderWatermillUUID + " is missing: it is the id of the message")
	}
	conn := http.NewResponseController(w)
	_ = conn.SetReadDeadline(time.Now().Add(bodyPeriod)) // a connection without deadlines is read without one
	r.Body = http.MaxBytesReader(w, r.Body, s.cfg.MaxBody)
	msg, err := wmhttp.DefaultUnmarshalMessageFunc(r.URL.Path, r)
	_ = conn.SetReadDeadline(time.Time{}) // the verdict may take longer
	if _, ok := errors.AsType[*http.MaxBytesError](err); ok {
		return nil, http.StatusRequestEntityTooLarge, errors.New("the payload is larger than the source takes")
	}
	if err != nil {
		return nil, http.StatusBadRequest, fmt.Errorf("the body, or the header %s with a JSON object of strings, cannot be read: %w", HeaderWatermillMetadata, err)
	}
	if msg.Metadata == nil { // null
		msg.Metadata = message.Metadata{}
	}
	return msg, 0, nil
}
