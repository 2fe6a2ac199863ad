package helm

import (
	"bytes"
	"encoding/pem"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/crypto/x509roots/fallback/bundle"
	"helm.sh/helm/v3/pkg/chartutil"
)

// authority is a file with a certificate.
func authority(t *testing.T) string {
	t.Helper()
	file := filepath.Join(t.TempDir(), "ca.crt")
	for root := range bundle.Roots() {
		must(t, os.WriteFile(file, pem.EncodeToMemory(&pem.Block{Type: "CERTIFICATE", Bytes: root.Certificate}), 0o600))
		break
	}
	return file
}

// with returns the minimal values with others.
func with(t *testing.T, text string) map[string]any {
	t.Helper()
	values, err := chartutil.ReadValues([]byte(text))
	must(t, err)
	return chartutil.CoalesceTables(values, valuesOf(t, "minimal"))
}

// A mistake in the values is refused before anything is installed.
func TestValuesThatAreRefused(t *testing.T) {
	t.Parallel()
	for text, want := range map[string]string{
		"replica: 2":                                  "replica",
		"config: {sources: null}":                     "sources",
		"config: {drain_timeout: 30 seconds}":         "drain_timeout",
		"config: {admin: {listen: \"0.0.0.0:9000\"}}": "listen",
		"probes: {port: 80}":                          "port",
		"probes: {readiness: {path: /}}":              "path",
		"sourcePorts: [{name: admin, port: 8090}]":    "sourcePorts",
		"image: {digest: latest}":                     "digest",
		"serviceMonitor: {enabled: true}":             "needs admin.existingSecret",
		"securityContexts: {}":                        "securityContexts",
	} {
		if _, err := render(with(t, text)); err == nil || !strings.Contains(err.Error(), want) {
			t.Errorf("%s: %v, want %q", text, err, want)
		}
	}
	if _, err := render(map[string]any{}); err == nil || !strings.Contains(err.Error(), "config") {
		t.Errorf("no configuration: %v", err)
	}
}

// The grace period follows drain_timeout in each of its spellings, and the pods follow the configuration.
func TestGraceAndChecksum(t *testing.T) {
	t.Parallel()
	sums := map[string]bool{}
	for drain, want := range map[string]int64{"30s": 45, "1m30s": 105, "100ms": 16, "1h": 3615, "1.5m": 105, "2500ms": 18} {
		o := decoded(t, mustRender(t, with(t, "config: {drain_timeout: "+drain+"}")))
		if got := *o.deployment.Spec.Template.Spec.TerminationGracePeriodSeconds; got != want {
			t.Errorf("drain_timeout %s: %d seconds, want %d", drain, got, want)
		}
		sums[o.deployment.Spec.Template.Annotations["checksum/config"]] = true
		parse(t, o)
	}
	if len(sums) != 6 {
		t.Errorf("%d checksums of 6 configurations", len(sums))
	}
}

func mustRender(t *testing.T, values map[string]any) map[string]string {
	t.Helper()
	files, err := render(values)
	must(t, err)
	return files
}

// The chart's alerts are those of deploy/prometheus: Helm reads nothing outside of a chart.
func TestAlerts(t *testing.T) {
	t.Parallel()
	want, err := os.ReadFile("../prometheus/alerts.yaml")
	must(t, err)
	if got, err := os.ReadFile("outrider/files/alerts.yaml"); err != nil || !bytes.Equal(got, want) {
		t.Errorf("files/alerts.yaml differs (%v): cp deploy/prometheus/alerts.yaml deploy/helm/outrider/files/", err)
	}
	o := decoded(t, mustRender(t, with(t, "prometheusRule: {enabled: true}")))
	rules := 0
	for _, group := range o.rule.Spec.Groups {
		rules += len(group.Rules)
	}
	if rules == 0 || rules != strings.Count(string(want), "- alert:") {
		t.Errorf("the PrometheusRule has %d rules", rules)
	}
}
