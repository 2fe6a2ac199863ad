package console

import (
	"context"
	"fmt"
	"path/filepath"
	"slices"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/outriderhq/outrider/adapters"
	"github.com/outriderhq/outrider/admin/operate"
	"github.com/outriderhq/outrider/config"
	"github.com/outriderhq/outrider/internal/testenv"
)

// onKafka creates a topic of three partitions with ten records each, and a configuration that reads them as CloudEvents of one type.
func onKafka(t *testing.T) (cfg *config.Config, topic string, produce func(partition int32, n int)) {
	t.Helper()
	brokers := testenv.Kafka(t)
	client, err := kgo.NewClient(kgo.SeedBrokers(brokers...), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	check(t, err)
	t.Cleanup(client.Close)
	admin := kadm.NewClient(client)
	topic = fmt.Sprintf("tail-%d", time.Now().UnixNano())
	_, err = admin.CreateTopic(t.Context(), 3, 1, nil, topic)
	check(t, err)
	produce = func(partition int32, n int) {
		for range n {
			rec := &kgo.Record{Topic: topic, Partition: partition, Value: []byte(`{}`), Headers: []kgo.RecordHeader{{Key: "ce_id", Value: []byte("e")}, {Key: "ce_type", Value: []byte("t")}}}
			check(t, client.ProduceSync(t.Context(), rec).FirstErr())
		}
	}
	for p := range int32(3) {
		produce(p, 10)
	}
	text := fmt.Sprintf(`
admin: {listen: off}
state: {url: %q}
sources: {app: {type: kafka, brokers: [%q], topic: %s, group: %s, format: cloudevents}}
destinations: {log: {type: log}}
routes: {all: {from: app, to: log, match: {types: [t]}}}`, "sqlite:"+filepath.Join(t.TempDir(), "state.db"), brokers[0], topic, topic)
	cfg, err = config.Parse("test", []byte(text), func(string) (string, bool) { return "", false })
	check(t, err)
	_, err = operate.Init(t.Context(), cfg)
	check(t, err)
	return cfg, topic, produce
}

// A topic is followed by partition, from its beginning and on; a record that cannot be decoded is shown to every route.
func TestATopicIsFollowed(t *testing.T) {
	t.Parallel()
	cfg, topic, produce := onKafka(t)
	client, err := kgo.NewClient(kgo.SeedBrokers(testenv.Kafka(t)...), kgo.DefaultProduceTopic(topic))
	check(t, err)
	defer client.Close()
	positions := map[int][]int64{}
	shown, broken := 0, 0
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute) // without what is awaited it would follow for ever
	defer cancel()
	check(t, Tail(ctx, cfg, "all", TailOptions{From: operate.Target{Start: adapters.Start{Kind: adapters.StartBeginning}}, Max: 36}, func(row *adapters.Row) error {
		positions[row.Slot] = append(positions[row.Slot], row.Position)
		if row.Err != nil {
			broken++
		}
		if shown++; shown == 30 {
			produce(1, 5)
			return client.ProduceSync(t.Context(), kgo.StringRecord("no event")).FirstErr()
		}
		return nil
	}))
	for slot, all := range positions {
		if !slices.IsSorted(all) || len(slices.Compact(all)) != len(positions[slot]) {
			t.Errorf("partition %d: %v", slot, all)
		}
	}
	if broken != 1 || len(positions) != 3 {
		t.Errorf("%d records that cannot be decoded, partitions %v", broken, positions)
	}
}

// A seek moves one partition to an offset, and others to nowhere.
func TestASeekMovesOnePartition(t *testing.T) {
	t.Parallel()
	cfg, _, _ := onKafka(t)
	op, err := operate.NewOperator(t.Context(), cfg)
	check(t, err)
	defer func() { check(t, op.Close()) }()
	seek := func(to operate.Target) (*operate.Relocation, error) {
		plan, err := op.PlanSeek(t.Context(), "all", to)
		if err == nil {
			err = op.Relocate(t.Context(), plan, "test")
		}
		return plan, err
	}
	_, err = seek(operate.Target{Start: adapters.Start{Kind: adapters.StartEnd}})
	check(t, err)
	one, none := 1, 3
	plan, err := seek(operate.Target{Position: 4, Partition: &one})
	check(t, err)
	if plan.Again.Rows != 6 || plan.Skipped.Rows != 0 || plan.To != "position 4 of partition 1" {
		t.Errorf("%+v", plan)
	}
	plan, err = op.PlanSeek(t.Context(), "all", operate.Target{Start: adapters.Start{Kind: adapters.StartEnd}})
	check(t, err)
	if plan.Skipped.Rows != 6 {
		t.Errorf("then %d records are left, want 6 of one partition", plan.Skipped.Rows)
	}
	for _, to := range []operate.Target{{Position: 4}, {Position: 4, Partition: &none}, {Position: 12, Partition: &one}} {
		if _, err := seek(to); err == nil {
			t.Errorf("a seek to %v is carried out", to)
		}
	}
}
