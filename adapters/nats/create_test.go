package nats

import (
	"context"
	"slices"
	"testing"
	"time"

	"github.com/nats-io/nats.go/jetstream"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/internal/testenv"
)

// A destination has a stream cover its subject, once.
func TestCreateTopic(t *testing.T) {
	t.Parallel()
	js := admin(t, shared.url)
	t.Cleanup(func() { _ = js.DeleteStream(context.Background(), "TestCreateTopic_a") })
	create := func(cfg Config, topic adapters.NewTopic, want bool, problem string) {
		t.Helper()
		created, err := destination(t, shared.url, cfg).CreateTopic(t.Context(), topic)
		wantError(t, err, problem)
		if created != want {
			t.Errorf("%+v: %v, want %v", topic, created, want)
		}
	}
	const subject = "TestCreateTopic.a"
	own := Config{Subject: subject}
	create(own, adapters.NewTopic{Name: subject, DryRun: true}, true, "")
	create(own, adapters.NewTopic{Name: subject, Partitions: 3}, false, "no partitions")
	create(own, adapters.NewTopic{Name: subject, Replicas: 3}, false, "replicas > 1 not supported")
	create(own, adapters.NewTopic{Name: subject}, true, "")
	create(own, adapters.NewTopic{Name: subject}, false, "")
	create(own, adapters.NewTopic{Name: "TestCreateTopic.b"}, false, "delivers to subject")
	s, err := js.Stream(t.Context(), "TestCreateTopic_a")
	if err != nil {
		t.Fatal(err)
	}
	if cfg := s.CachedInfo().Config; cfg.Storage != jetstream.FileStorage || !cfg.AllowAtomicPublish || cfg.Duplicates != 2*time.Minute || cfg.Replicas != 1 {
		t.Errorf("the stream is %+v", cfg)
	}

	template := Config{Subject: "TestCreateTopic.more.{{.Type}}", Stream: "TestCreateTopic_a", Allowed: func(name string) bool { return name != "TestCreateTopic.more.secret" }}
	create(template, adapters.NewTopic{Name: "TestCreateTopic.more.secret"}, false, "none that the destination allows")
	create(template, adapters.NewTopic{Name: "TestCreateTopic.more.*"}, false, "not a valid subject")
	create(template, adapters.NewTopic{Name: "TestCreateTopic.more.b"}, true, "")
	if info, err := s.Info(t.Context()); err != nil || !slices.Equal(info.Config.Subjects, []string{subject, "TestCreateTopic.more.b"}) {
		t.Errorf("the stream has %v, %v", info.Config.Subjects, err)
	}
	create(Config{Subject: "TestCreateTopic_a"}, adapters.NewTopic{Name: "TestCreateTopic_a"}, false, "exists and does not cover")
	_, err = destination(t, testenv.Refused(t), Config{Subject: "a"}).CreateTopic(t.Context(), adapters.NewTopic{Name: "a"})
	wantError(t, err, "connection refused")
}
