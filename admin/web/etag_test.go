package web_test

import (
	"net/http"
	"testing"
)

// A page that shows the same is not sent again to the script, though times relative to now go on.
func TestAPageThatShowsTheSameIsNotSentAgain(t *testing.T) {
	t.Parallel()
	s := newSite(t, "")
	s.publish("bad-1", `{"customer": "bad"}`)
	s.until("bad-1 is held", func() bool { return s.count("SELECT count(*) FROM outrider_parked WHERE status = 'held'") == 1 })
	b := s.signIn(t, "read")
	b.want("/parked?route=eu_orders", "bad-1")
	tag, first := b.tag, b.page
	if tag == "" {
		t.Fatal("the page has no ETag")
	}
	// A busy machine may change the page once more, such as by an alarm that begins: then it starts over.
	s.until("a time relative to now goes on", func() bool {
		b.open("/parked?route=eu_orders")
		if b.tag != tag {
			tag, first = b.tag, b.page
		}
		return b.page != first
	})
	s.until("the page is not sent again", func() bool {
		if b.tag != "" {
			tag = b.tag
		}
		b.head.Set("If-None-Match", tag)
		return b.open("/parked?route=eu_orders") == http.StatusNotModified && b.page == ""
	})
	s.publish("bad-2", `{"customer": "bad"}`)
	s.until("what has changed is sent", func() bool { return b.open("/parked?route=eu_orders") == http.StatusOK && b.tag != tag })
}
