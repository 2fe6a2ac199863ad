package compose

import (
	"bufio"
	"context"
	"io"
	"net/http"
	"net/http/httptest"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"sync"
	"syscall"
	"testing"
	"time"

	webhooks "github.com/standard-webhooks/standard-webhooks/libraries/go"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/outriderhq/outrider/internal/testenv"
)

// The services of the trial with Kafka in the middle, run with the program itself: what is published arrives once, signed, by way of three
// relays in one group.
func TestTheTrialWithKafkaInTheMiddleDelivers(t *testing.T) {
	t.Parallel()
	p := projectOf(t, "kafka/compose.yaml")
	environ := environment(p.Services["webhooks"])
	secret, _ := environ("WEBHOOK_SECRET")
	verifier, err := webhooks.NewWebhook(secret)
	must(t, err)
	arrived := make(chan string, 100)
	receiver := httptest.NewServer(http.HandlerFunc(func(_ http.ResponseWriter, r *http.Request) {
		body, err := io.ReadAll(r.Body)
		if err == nil {
			err = verifier.Verify(body, r.Header)
		}
		if err != nil {
			t.Errorf("a request is not signed: %v", err)
		}
		arrived <- r.Header.Get("webhook-id")
	}))
	t.Cleanup(receiver.Close)
	brokers, database := testenv.Kafka(t), testenv.Postgres(t)
	program := filepath.Join(t.TempDir(), "outrider")
	if out, err := exec.Command("go", "build", "-C", "../..", "-o", program, "./cmd/outrider").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	command := func(service string) *exec.Cmd {
		s := p.Services[service]
		cmd := exec.Command(program, s.Command...)
		cmd.Env = append(os.Environ(), "OUTRIDER_CONFIG="+source(s, "/etc/outrider/outrider.yaml"), "DATABASE_URL="+database, "KAFKA_BROKER="+brokers[0],
			"RECEIVER_URL="+receiver.URL, "WEBHOOK_SECRET="+secret)
		return cmd
	}
	ends := func(service string) string {
		t.Helper()
		out, err := command(service).CombinedOutput()
		if err != nil {
			t.Fatalf("service %s: %v\n%s", service, err, out)
		}
		return strings.TrimSpace(string(out))
	}
	client, err := kgo.NewClient(kgo.SeedBrokers(brokers...))
	must(t, err)
	t.Cleanup(func() {
		_, _ = kadm.NewClient(client).DeleteTopics(context.Background(), "orders") // of a server of the tests
		client.Close()
	})
	ends("init")
	ends("topic")
	relays := []*exec.Cmd{command("table")}
	for range *p.Services["webhooks"].Deploy.Replicas {
		relays = append(relays, command("webhooks"))
	}
	var ready, stopped sync.WaitGroup
	for _, relay := range relays {
		start(t, relay, &ready, &stopped)
	}
	ready.Wait()
	wanted := map[string]bool{}
	for range 5 {
		wanted[ends("publish")] = true
	}
	for deadline := time.After(time.Minute); len(wanted) > 0; {
		select {
		case id := <-arrived:
			if !wanted[id] {
				t.Errorf("%s arrived twice, or was not published", id)
			}
			delete(wanted, id)
		case <-deadline:
			t.Fatalf("%d messages have not arrived\n%s", len(wanted), ends("status"))
		}
	}
	if said := ends("status"); !strings.Contains(said, "hooks") {
		t.Errorf("status: %s", said)
	}
	for _, relay := range relays {
		must(t, relay.Process.Signal(syscall.SIGTERM))
	}
	stopped.Wait()
	for _, relay := range relays {
		must(t, relay.Wait())
	}
}

// start starts a relay, and counts it as ready and as stopped.
func start(t *testing.T, relay *exec.Cmd, ready, stopped *sync.WaitGroup) {
	t.Helper()
	stderr, err := relay.StderrPipe()
	must(t, err)
	must(t, relay.Start())
	t.Cleanup(func() { _ = relay.Process.Kill() }) // without effect after Wait
	ready.Add(1)
	isReady := sync.OnceFunc(ready.Done)
	stopped.Go(func() {
		defer isReady()
		for lines := bufio.NewScanner(stderr); lines.Scan(); {
			if strings.Contains(lines.Text(), "msg=ready") {
				isReady()
			}
		}
	})
}
