// Package compose tests what `docker compose` reads of the trial, as far as that is possible without Docker: images are not pulled.
package compose

import (
	"bufio"
	"context"
	"io"
	"net"
	"net/http"
	"net/url"
	"os"
	"os/exec"
	"path/filepath"
	"slices"
	"strings"
	"syscall"
	"testing"
	"time"

	"github.com/compose-spec/compose-go/v2/cli"
	"github.com/compose-spec/compose-go/v2/types"
	"github.com/twmb/franz-go/pkg/kadm"
	"github.com/twmb/franz-go/pkg/kgo"
	"sigs.k8s.io/yaml"

	"github.com/outriderhq/outrider/config"
	"github.com/outriderhq/outrider/internal/testenv"
)

// project reads compose.yaml by the specification's own loader, which refuses keys that it does not know.
func project(t *testing.T) *types.Project {
	t.Helper()
	return projectOf(t, "compose.yaml")
}

func projectOf(t *testing.T, file string) *types.Project {
	t.Helper()
	options, err := cli.NewProjectOptions([]string{file}, cli.WithProfiles([]string{"*"}), cli.WithDiscardEnvFile)
	must(t, err)
	p, err := options.LoadProject(t.Context())
	must(t, err)
	return p
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// Every file that a service mounts exists, is mounted read-only, and no port is open to other machines.
func TestTheTrialHasItsFiles(t *testing.T) {
	t.Parallel()
	files := 0
	for name, s := range project(t).Services {
		for _, v := range s.Volumes {
			if v.Type != types.VolumeTypeBind {
				continue
			}
			files++
			if _, err := os.Stat(v.Source); err != nil || !v.ReadOnly {
				t.Errorf("%s mounts %s: %v, read-only %t", name, v.Source, err, v.ReadOnly)
			}
		}
		for _, port := range s.Ports {
			if port.HostIP != "127.0.0.1" {
				t.Errorf("%s opens port %s at %q", name, port.Published, port.HostIP)
			}
		}
		for on := range s.DependsOn {
			if _, err := project(t).GetService(on); err != nil {
				t.Error(err)
			}
		}
	}
	if files < 9 {
		t.Errorf("only %d files are mounted", files)
	}
}

// The files of the trial name each other's addresses, paths and tokens.
func TestTheTrialFitsTogether(t *testing.T) {
	t.Parallel()
	p := project(t)
	cfg, err := config.Parse("outrider.yaml", []byte(local(t, p)), environment(p.Services["outrider"]))
	must(t, err)
	var scrape struct {
		RuleFiles     []string `json:"rule_files"`
		ScrapeConfigs []struct {
			Authorization struct {
				File string `json:"credentials_file"`
			} `json:"authorization"`
			StaticConfigs []struct {
				Targets []string `json:"targets"`
			} `json:"static_configs"`
		} `json:"scrape_configs"`
	}
	read(t, "prometheus.yml", &scrape)
	host, port, err := net.SplitHostPort(scrape.ScrapeConfigs[0].StaticConfigs[0].Targets[0])
	must(t, err)
	if _, listens, err := net.SplitHostPort(cfg.Admin.Listen); err != nil || p.Services[host].Name == "" || !slices.Contains(cfg.Admin.Hosts, host) || port != listens {
		t.Errorf("Prometheus asks %s:%s, the relay listens at %s as %v", host, port, cfg.Admin.Listen, cfg.Admin.Hosts)
	}
	for _, path := range append(scrape.RuleFiles, scrape.ScrapeConfigs[0].Authorization.File) {
		if source(p.Services["prometheus"], path) == "" {
			t.Errorf("prometheus.yml names %s, which is not mounted", path)
		}
	}
	var sources struct {
		Datasources []struct{ URL string } `json:"datasources"`
	}
	read(t, "grafana/datasources/prometheus.yaml", &sources)
	if sources.Datasources[0].URL != "http://prometheus:9090" || p.Services["prometheus"].Name == "" {
		t.Errorf("Grafana asks %v", sources)
	}
	var dashboards struct {
		Providers []struct {
			Options struct{ Path string } `json:"options"`
		} `json:"providers"`
	}
	read(t, "grafana/dashboards/outrider.yaml", &dashboards)
	if source(p.Services["grafana"], dashboards.Providers[0].Options.Path+"/outrider.json") == "" {
		t.Errorf("no dashboard is mounted in %v", dashboards)
	}
}

func read(t *testing.T, file string, into any) {
	t.Helper()
	text, err := os.ReadFile(file)
	must(t, err)
	must(t, yaml.Unmarshal(text, into))
}

// source is the file that a service has at a path; empty: none.
func source(s types.ServiceConfig, target string) string {
	for _, v := range s.Volumes {
		if v.Target == target {
			return v.Source
		}
	}
	return ""
}

func environment(s types.ServiceConfig) func(string) (string, bool) {
	return func(name string) (string, bool) {
		if value := s.Environment[name]; value != nil {
			return *value, true
		}
		return "", false
	}
}

// mounted is a file of this folder, with the other files of the folder in place of the paths at which a service has them.
func mounted(t *testing.T, s types.ServiceConfig, file string) string {
	t.Helper()
	text, err := os.ReadFile(file)
	must(t, err)
	out := string(text)
	for _, v := range s.Volumes {
		out = strings.ReplaceAll(out, v.Target, v.Source)
	}
	return out
}

func scraping(t *testing.T, p *types.Project) string {
	t.Helper()
	return mounted(t, p.Services["prometheus"], "prometheus.yml")
}

// promtool accepts prometheus.yml and the alerts that it names.
func TestPrometheusReadsItsConfiguration(t *testing.T) {
	t.Parallel()
	promtool := testenv.Promtool(t)
	file := filepath.Join(t.TempDir(), "prometheus.yml")
	must(t, os.WriteFile(file, []byte(scraping(t, project(t))), 0o600))
	if said, err := exec.Command(promtool, "check", "config", file).CombinedOutput(); err != nil {
		t.Errorf("%v\n%s", err, said)
	}
}

func local(t *testing.T, p *types.Project) string {
	t.Helper()
	return mounted(t, p.Services["outrider"], "outrider.yaml")
}

// The services init, topic, outrider and publish, run with the program itself, deliver to Kafka; the relay is healthy by the
// service's check, and Prometheus gets its metrics with the mounted token.
func TestTheTrialDelivers(t *testing.T) {
	t.Parallel()
	p := project(t)
	brokers, database := testenv.Kafka(t), testenv.Postgres(t)
	program := filepath.Join(t.TempDir(), "outrider")
	if out, err := exec.Command("go", "build", "-C", "../..", "-o", program, "./cmd/outrider").CombinedOutput(); err != nil {
		t.Fatalf("%v\n%s", err, out)
	}
	admin, probes := testenv.FreePort(t), testenv.FreePort(t)
	file := filepath.Join(t.TempDir(), "outrider.yaml")
	must(t, os.WriteFile(file, []byte(strings.NewReplacer("0.0.0.0:8080", "0.0.0.0:"+admin, "127.0.0.1:8081", "127.0.0.1:"+probes).Replace(local(t, p))), 0o600))
	command := func(args []string) *exec.Cmd {
		cmd := exec.Command(program, args...)
		cmd.Env = append(os.Environ(), "OUTRIDER_CONFIG="+file, "DATABASE_URL="+database, "KAFKA_BROKER="+brokers[0])
		return cmd
	}
	service := func(name string) string {
		t.Helper()
		out, err := command(p.Services[name].Command).CombinedOutput()
		if err != nil {
			t.Fatalf("service %s: %v\n%s", name, err, out)
		}
		return strings.TrimSpace(string(out))
	}
	client, err := kgo.NewClient(kgo.SeedBrokers(brokers...), kgo.ConsumeTopics("order.created"), kgo.ConsumeResetOffset(kgo.NewOffset().AtStart()))
	must(t, err)
	t.Cleanup(func() {
		_, _ = kadm.NewClient(client).DeleteTopics(context.Background(), "order.created") // of a server of the tests
		client.Close()
	})
	for range 2 { // as after the next `docker compose up`
		service("init")
		service("topic")
	}
	relay := command(p.Services["outrider"].Command)
	stderr, err := relay.StderrPipe()
	must(t, err)
	must(t, relay.Start())
	t.Cleanup(func() { _ = relay.Process.Kill() }) // without effect after Wait
	lines := bufio.NewScanner(stderr)
	ready := false
	for !ready && lines.Scan() {
		ready = strings.Contains(lines.Text(), "msg=ready")
	}
	go func() { _, _ = io.Copy(io.Discard, stderr) }() // until it ends
	if out, err := command(p.Services["outrider"].HealthCheck.Test[2:]).CombinedOutput(); err != nil {
		t.Fatalf("health check: %v\n%s", err, out)
	}
	id := service("publish")
	ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
	defer cancel()
	arrived := false
	for !arrived {
		fetches := client.PollFetches(ctx)
		must(t, fetches.Err())
		fetches.EachRecord(func(r *kgo.Record) {
			arrived = arrived || strings.Contains(string(r.Value), "order_id") && hasHeader(r, id)
		})
	}
	checkMetrics(t, p, admin)
	checkScraped(t, strings.ReplaceAll(scraping(t, p), "outrider:8080", "127.0.0.1:"+admin))
	must(t, relay.Process.Signal(syscall.SIGTERM))
	must(t, relay.Wait())
}

func hasHeader(r *kgo.Record, value string) bool {
	return slices.ContainsFunc(r.Headers, func(h kgo.RecordHeader) bool { return string(h.Value) == value })
}

// checkMetrics asks as Prometheus does: by the service's name, with the token of the mounted file.
func checkMetrics(t *testing.T, p *types.Project, port string) {
	t.Helper()
	token, err := os.ReadFile(source(p.Services["prometheus"], "/etc/prometheus/tokens"))
	must(t, err)
	req, err := http.NewRequestWithContext(t.Context(), http.MethodGet, "http://127.0.0.1:"+port+"/metrics", http.NoBody)
	must(t, err)
	req.Host = "outrider:8080"
	req.Header.Set("Authorization", "Bearer "+strings.TrimSpace(string(token)))
	resp, err := http.DefaultClient.Do(req)
	must(t, err)
	body, err := io.ReadAll(resp.Body)
	must(t, err)
	must(t, resp.Body.Close())
	if resp.StatusCode != http.StatusOK || !strings.Contains(string(body), `route="orders"`) {
		t.Errorf("metrics: %s\n%.500s", resp.Status, body)
	}
}

// checkScraped waits until a Prometheus with the trial's configuration has the relay's metrics.
func checkScraped(t *testing.T, configuration string) {
	t.Helper()
	prometheus := testenv.StartPrometheus(t, configuration, func(string) error { return nil })
	query := prometheus.URL() + "/api/v1/query?query=" + url.QueryEscape(`up{job="outrider"} == 1 and on(instance) outrider_stopped{route="orders"} == 0`)
	for end := time.Now().Add(time.Minute); ; time.Sleep(200 * time.Millisecond) {
		resp, err := http.Get(query)
		must(t, err)
		body, err := io.ReadAll(resp.Body)
		must(t, err)
		must(t, resp.Body.Close())
		if strings.Contains(string(body), `"instance"`) {
			return
		}
		if time.Now().After(end) {
			t.Fatalf("Prometheus has not scraped the relay: %s", body)
		}
	}
}
