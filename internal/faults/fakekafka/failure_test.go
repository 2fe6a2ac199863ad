package fakekafka

import (
	"bytes"
	"fmt"
	"maps"
	"strconv"
	"strings"
	"sync/atomic"
	"testing"

	"github.com/ThreeDotsLabs/watermill/message"
	"github.com/twmb/franz-go/pkg/kerr"
	"github.com/twmb/franz-go/pkg/kfake"
	"github.com/twmb/franz-go/pkg/kmsg"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/adapters/kafka"
)

// failProduce answers every produce request for which code returns an error
// code; 0 lets it pass.
func failProduce(c *kfake.Cluster, code func(records []byte) int16) {
	c.ControlKey(int16(kmsg.Produce), func(r kmsg.Request) (kmsg.Response, error, bool) {
		c.KeepControl()
		req := r.(*kmsg.ProduceRequest)
		resp := req.ResponseKind().(*kmsg.ProduceResponse)
		for _, rt := range req.Topics {
			topic := kmsg.NewProduceResponseTopic()
			topic.Topic, topic.TopicID = rt.Topic, rt.TopicID
			for _, rp := range rt.Partitions {
				p := kmsg.NewProduceResponseTopicPartition()
				p.Partition, p.ErrorCode = rp.Partition, code(rp.Records)
				if p.ErrorCode == 0 {
					return nil, nil, false
				}
				topic.Partitions = append(topic.Partitions, p)
			}
			resp.Topics = append(resp.Topics, topic)
		}
		return resp, nil, true
	})
}

// The table of section 7, for codes that concern no single record.
func TestG10_BrokerErrorsAreUnavailable(t *testing.T) {
	t.Parallel()
	for want, codes := range map[string][]*kerr.Error{
		"cannot be written to": {
			kerr.NotLeaderForPartition, kerr.LeaderNotAvailable, kerr.NotEnoughReplicas, kerr.KafkaStorageError, kerr.NetworkException,
			kerr.InvalidRequiredAcks, kerr.UnsupportedVersion, kerr.PolicyViolation,
		},
		// It is unknown whether these were written; franz-go retries until its limit.
		"were not acknowledged within":   {kerr.RequestTimedOut, kerr.NotEnoughReplicasAfterAppend},
		"create it with kafka-topics.sh": {kerr.UnknownTopicOrPartition, kerr.UnknownTopicID},
		"grant WRITE":                    {kerr.TopicAuthorizationFailed},
		"grant IDEMPOTENT_WRITE":         {kerr.ClusterAuthorizationFailed},
		"check it":                       {kerr.InvalidTimestamp},
		"check its message format":       {kerr.UnsupportedForMessageFormat, kerr.UnsupportedCompressionType},
		"refuse the credentials: check":  {kerr.SaslAuthenticationFailed},
	} {
		for i, code := range append(codes, codes[0]) {
			name, exclusive := code.Message, i >= len(codes)
			if exclusive {
				name += ", exclusive"
			}
			t.Run(name, func(t *testing.T) {
				t.Parallel()
				c := fake(t)
				var pass atomic.Bool
				failProduce(c, func([]byte) int16 {
					if pass.Load() {
						return 0
					}
					return code.Code
				})
				d := through(t, destination(t, kafka.Config{Brokers: c.ListenAddrs(), Topic: "t", Timeout: shortest, Exclusive: exclusive}), "orders/07")
				msgs := []*message.Message{newMessage("1", "a"), newMessage("2", "a"), newMessage("3", "b")}
				wantUnavailable(t, d, msgs, want)
				pass.Store(true)
				untilDelivered(t, d, msgs)
			})
		}
	}
}

// Who may not write idempotently learns it when the relay starts, and with each
// message. As soon as he may, they are delivered, although franz-go never asks again.
func TestG10_RefusedProducerIDs(t *testing.T) {
	t.Parallel()
	for want, code := range map[string]*kerr.Error{
		"grant IDEMPOTENT_WRITE": kerr.ClusterAuthorizationFailed,
		"cannot be written to":   kerr.UnsupportedVersion,
	} {
		t.Run(code.Message, func(t *testing.T) {
			t.Parallel()
			c := fake(t)
			var failing atomic.Int32
			failTransactions(c, kmsg.InitProducerID, &failing)
			msgs := []*message.Message{newMessage("1", "a"), newMessage("2", "")}
			for _, checked := range []bool{true, false} {
				d := destination(t, kafka.Config{Brokers: c.ListenAddrs(), Topic: "t"})
				failing.Store(int32(code.Code))
				if checked {
					wantError(t, d.Check(t.Context()), want)
				} else {
					wantUnavailable(t, d, msgs, want)
				}
				failing.Store(0)
				if errs := d.Deliver(t.Context(), "t", msgs); errs != nil {
					t.Errorf("once it is not refused any more, checked before %t: %v", checked, errs)
				}
			}
		})
	}
}

// wantUnavailable delivers messages, all of which must come back unavailable, the
// first with a hint.
func wantUnavailable(t *testing.T, d adapters.Destination, msgs []*message.Message, hint string) {
	t.Helper()
	errs := d.Deliver(t.Context(), "t", msgs)
	want := map[string]string{}
	for _, msg := range msgs {
		want[msg.UUID] = "unavailable"
	}
	if got := results(msgs, errs); !maps.Equal(got, want) || !strings.Contains(fmt.Sprint(errs[0]), hint) {
		t.Errorf("got %v, %v, want unavailable with %q", got, errs, hint)
	}
}

// Codes that concern a record: the one that carries the word poison.
func TestG2_BrokerRejectsOneRecord(t *testing.T) {
	t.Parallel()
	for code, want := range map[*kerr.Error]string{
		kerr.MessageTooLarge:    "permanent",
		kerr.RecordListTooLarge: "permanent",
		kerr.InvalidRecord:      "permanent",
		kerr.CorruptMessage:     "transient",
		kerr.UnknownServerError: "transient",
	} {
		t.Run(code.Message, func(t *testing.T) {
			t.Parallel()
			c := fake(t)
			failProduce(c, func(records []byte) int16 {
				if bytes.Contains(records, []byte("poison")) {
					return code.Code
				}
				return 0
			})
			d := destination(t, kafka.Config{Brokers: c.ListenAddrs(), Topic: "t"})
			var msgs []*message.Message
			expected := map[string]string{}
			for i := range 40 {
				id, group := strconv.Itoa(i), string(rune('a'+i%4))
				expected[id] = "ok"
				if i > 21 && group == "b" {
					expected[id] = "released"
				}
				msgs = append(msgs, newMessage(id, group))
			}
			msgs[21].Payload, expected["21"] = []byte(`"poison"`), want
			errs := d.Deliver(t.Context(), "t", msgs)
			if got := results(msgs, errs); !maps.Equal(got, expected) {
				t.Errorf("results\n got %v\nwant %v: %v", got, expected, errs)
			}
			if got := fmt.Sprint(ids(t, c, "a")); got != "[0 4 8 12 16 20 24 28 32 36]" {
				t.Errorf("group a arrived as %s", got)
			}
			if got := fmt.Sprint(ids(t, c, "b")); got != "[1 5 9 13 17]" {
				t.Errorf("group b arrived as %s", got)
			}
		})
	}
}

func TestCulpritSearchIsBounded(t *testing.T) {
	t.Parallel()
	const maxSearches = 64 // as many as the destination makes
	c := fake(t)
	var requests atomic.Int64
	failProduce(c, func([]byte) int16 { requests.Add(1); return kerr.InvalidRecord.Code })
	d := destination(t, kafka.Config{Brokers: c.ListenAddrs(), Topic: "t"})
	var msgs []*message.Message
	for i := range 300 {
		msgs = append(msgs, newMessage(strconv.Itoa(i), strconv.Itoa(i)))
	}
	counts := map[string]int{}
	for _, kind := range results(msgs, d.Deliver(t.Context(), "t", msgs)) {
		counts[kind]++
	}
	if counts["permanent"] == 0 || counts["permanent"]+counts["released"] != len(msgs) {
		t.Errorf("results %v, want some permanent and the rest released", counts)
	}
	// A client may need a second request to send one wave.
	if n := requests.Load(); n > 2*maxSearches {
		t.Errorf("%d requests for %d searches", n, maxSearches)
	}
}

// A broker that forgot the producer must not stop or reorder the stream.
func TestSequenceErrorsRecover(t *testing.T) {
	t.Parallel()
	for _, code := range []*kerr.Error{kerr.OutOfOrderSequenceNumber, kerr.UnknownProducerID} {
		c := fake(t)
		var n atomic.Int64
		failProduce(c, func([]byte) int16 {
			if n.Add(1) == 2 {
				return code.Code
			}
			return 0
		})
		d := destination(t, kafka.Config{Brokers: c.ListenAddrs(), Topic: "t"})
		for i := range 4 {
			msgs := []*message.Message{newMessage(strconv.Itoa(2*i), "g"), newMessage(strconv.Itoa(2*i+1), "g")}
			if errs := d.Deliver(t.Context(), "t", msgs); errs != nil {
				t.Fatalf("%s: wave %d: %v", code.Message, i, errs)
			}
		}
		if got := fmt.Sprint(ids(t, c, "g")); got != "[0 1 2 3 4 5 6 7]" {
			t.Errorf("%s: the group arrived as %s", code.Message, got)
		}
	}
}

func TestG12_WrongPasswordIsNotShown(t *testing.T) {
	t.Parallel()
	const canary = "CANARY-7f3a"
	c := fake(t, kfake.EnableSASL(), kfake.Superuser("PLAIN", "u", "right"), kfake.Superuser("SCRAM-SHA-256", "u", "right"))
	for _, mechanism := range []string{"PLAIN", "SCRAM-SHA-256"} {
		cfg := kafka.Config{Brokers: c.ListenAddrs(), Topic: "t", Timeout: shortest, SASL: &kafka.SASL{Mechanism: mechanism, Username: "u", Password: canary}}
		d := destination(t, cfg)
		msgs := []*message.Message{newMessage("1", "g")}
		errs := d.Deliver(t.Context(), "t", msgs)
		if got := results(msgs, errs)["1"]; got != "unavailable" {
			t.Errorf("%s: %s: %v", mechanism, got, errs)
		}
		shown := fmt.Sprintf("%v %v %+v %#v", errs, d.Check(t.Context()), cfg.SASL, *cfg.SASL)
		if strings.Contains(shown, canary) {
			t.Errorf("%s: the password shows in %s", mechanism, shown)
		}
		right := destination(t, kafka.Config{Brokers: c.ListenAddrs(), Topic: "t", SASL: &kafka.SASL{Mechanism: mechanism, Username: "u", Password: "right"}})
		if errs := right.Deliver(t.Context(), "t", msgs); errs != nil {
			t.Errorf("%s: the right password: %v", mechanism, errs)
		}
	}
}
