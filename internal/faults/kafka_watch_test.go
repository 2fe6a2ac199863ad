package faults_test

import (
	"fmt"
	"net/http"
	"regexp"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"

	"github.com/outriderhq/outrider/internal/testenv"
)

// metric is the value of a series; -1: there is none.
func (r *relay) metric(base, series string) int {
	r.t.Helper()
	text, err := getAs(r.t, base+"/metrics", "")
	must(r.t, err)
	found := regexp.MustCompile(`(?m)^` + regexp.QuoteMeta(series) + ` (\d+)$`).FindStringSubmatch(text)
	if found == nil {
		return -1
	}
	n, err := strconv.Atoi(found[1])
	must(r.t, err)
	return n
}

// A record that is not settled raises the alarm, which names partition and offset, beside a partition that always has records which came a moment
// ago: those are not overdue. The backlog is the lag that another client computes.
func TestG13_TheWatchdogOfATopic(t *testing.T) {
	t.Parallel()
	full(t) // the limit has to run out
	l, db := newLogOf(t, testenv.Kafka(t), 2, nil), newDatabase(t)
	release := make(chan struct{})
	to := receive(t, func(req *http.Request, batch []payload) int {
		switch batch[0].Group {
		case "stuck":
			select {
			case <-release:
			case <-req.Context().Done():
			}
		case "flowing":
			pause(req.Context(), 300*time.Millisecond)
		}
		return http.StatusOK
	})
	config := strings.Replace(l.config(db.url, toHTTP(to.url())+", batch: {max_messages: 1}, timeout: 10m"), "listen: off}", "listen: \"127.0.0.1:0\"}\nwatchdog: 5s", 1)
	r := start(t, config+"    middleware: [poison, retry, {timeout: 10m}]\n")
	base := r.admin()
	client, err := kgo.NewClient(kgo.SeedBrokers(l.brokers...), kgo.RecordPartitioner(kgo.ManualPartitioner()))
	must(t, err)
	defer client.Close()
	n := 0
	put := func(partition int32, group string) {
		t.Helper()
		n++
		record := l.record(fmt.Sprint("m", n), group)
		record.Partition = partition
		must(t, client.ProduceSync(t.Context(), record).FirstErr())
	}
	for i := range 30 {
		put(1, fmt.Sprint("g", i))
	}
	put(1, "stuck")
	for i := range 30 {
		put(1, fmt.Sprint("h", i))
	}
	r.until("the record is overdue", func() bool {
		if to.arrived() == n-1 { // one is always under way
			put(0, "flowing")
		}
		return r.metric(base, `outrider_overdue_rows{cause="stuck",route="orders0"}`) > 0
	})
	if rows := r.metric(base, `outrider_overdue_rows{cause="stuck",route="orders0"}`); rows != 1 {
		t.Errorf("%d rows are overdue, want the record that hangs alone", rows)
	}
	r.says(l.topic + "/1/30\\b")

	r.until("all others are settled", func() bool { return to.arrived() == n-1 && l.lag() == 31 })
	r.until("the backlog is the lag", func() bool { return r.metric(base, `outrider_backlog_rows{route="orders0"}`) == l.lag() })

	close(release)
	r.until("the alarm is over", func() bool { return r.metric(base, `outrider_overdue_rows{cause="stuck",route="orders0"}`) == 0 })
	r.until("nothing is behind", func() bool { return r.metric(base, `outrider_backlog_rows{route="orders0"}`) == 0 && l.lag() == 0 })

	command(t, "pause", "orders0", "-c", r.config)
	l.write("paused", 10, 500)
	r.until("the backlog is the lag", func() bool { return r.metric(base, `outrider_backlog_rows{route="orders0"}`) == 500 && l.lag() == 500 })
	command(t, "resume", "orders0", "-c", r.config)
	r.until("nothing is behind", func() bool { return r.metric(base, `outrider_backlog_rows{route="orders0"}`) == 0 && l.lag() == 0 })
	r.stop()
	eachOnce(t, l.rows(), to)
}

// lag is what the group has not committed, over all partitions.
func (l *log) lag() (total int) {
	l.t.Helper()
	lags, err := l.admin.Lag(l.t.Context(), l.topic)
	must(l.t, err)
	must(l.t, lags.Error())
	return int(lags[l.topic].Lag.Total())
}
